//! The compiler's messages for wrong uses of the macros. Each message was reviewed for whether it
//! contains what to do.

#[test]
fn compiler_messages_contain_what_to_do() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
