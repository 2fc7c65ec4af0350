#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hamr_tests::hostile::any_host(bytes));
