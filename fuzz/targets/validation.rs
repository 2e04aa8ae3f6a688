//! `validation::validation` for libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::validation::validation(data));
