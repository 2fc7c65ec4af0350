//! What the compiler says to people who hold the macros wrong. Each message was read for whether it says what to do.

#[test]
fn messages_say_what_to_do() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
