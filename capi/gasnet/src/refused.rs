//! What is declared and not there: each says so.

#![expect(unsafe_code)]
// UNSAFETY: exported names.

use crate::die::die;
use crate::errors::{ERR_RESOURCE, complain};
use std::ffi::{c_int, c_void};

#[unsafe(no_mangle)]
extern "C" fn gex_EP_Create(_: *mut *mut c_void, _: *mut c_void, _: u32, _: u32) -> c_int {
    complain("gex_EP_Create: a rank has one endpoint");
    ERR_RESOURCE
}
#[unsafe(no_mangle)]
extern "C" fn gex_EP_Destroy(_: *mut c_void, _: u32) {
    die("gex_EP_Destroy: a rank's only endpoint stays");
}
#[unsafe(no_mangle)]
extern "C" fn gex_MK_Create(_: *mut *mut c_void, _: *mut c_void, _: *const c_void, _: u32) -> c_int {
    complain("gex_MK_Create: expected host memory, which is GEX_MK_HOST");
    ERR_RESOURCE
}
#[unsafe(no_mangle)]
extern "C" fn gex_MK_Destroy(_: *mut c_void, _: u32) {
    die("gex_MK_Destroy: host memory stays");
}
