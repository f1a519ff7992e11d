#![no_main]
#[path = "../../crates/smb-server/tests/util/mod.rs"]
mod util;
libfuzzer_sys::fuzz_target!(|data: &[u8]| util::targets::header(data));
