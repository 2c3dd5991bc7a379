//! `fabric/fabric.h`.

use std::ffi::{c_char, c_int, c_uchar, c_void};
use std::marker::{PhantomData, PhantomPinned};

pub const TOKEN_BYTES: usize = 32;

macro_rules! opaque {
    ($($name:ident),*) => {$(
        #[repr(C)]
        pub struct $name {
            _data: [u8; 0],
            _marker: PhantomData<(*mut u8, PhantomPinned)>,
        }
    )*};
}

opaque!(Listener, Request, Link, Region);

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Completion {
    pub tag: u64,
    pub error: c_int,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Place {
    pub address: u64,
    pub key: u64,
}

unsafe extern "C" {
    pub fn aqf_load() -> c_int;
    pub fn aqf_version() -> u32;
    pub fn aqf_explain(error: c_int, text: *mut c_char, bytes: usize);
    pub fn aqf_providers(text: *mut c_char, bytes: usize) -> c_int;

    pub fn aqf_listen(
        provider: *const c_char,
        host: *const c_char,
        port: *const c_char,
        listener: *mut *mut Listener,
    ) -> c_int;
    pub fn aqf_listener_port(listener: *mut Listener, port: *mut u16) -> c_int;
    pub fn aqf_next_request(
        listener: *mut Listener,
        timeout_ms: c_int,
        request: *mut *mut Request,
        token: *mut c_uchar,
    ) -> c_int;
    pub fn aqf_accept(
        listener: *mut Listener,
        request: *mut Request,
        timeout_ms: c_int,
        link: *mut *mut Link,
    ) -> c_int;
    pub fn aqf_reject(listener: *mut Listener, request: *mut Request);
    pub fn aqf_listener_close(listener: *mut Listener);

    pub fn aqf_connect(
        provider: *const c_char,
        host: *const c_char,
        port: *const c_char,
        token: *const c_uchar,
        timeout_ms: c_int,
        link: *mut *mut Link,
    ) -> c_int;
    pub fn aqf_link_provider(link: *const Link) -> *const c_char;
    pub fn aqf_link_is_down(link: *mut Link) -> c_int;
    pub fn aqf_link_close(link: *mut Link);

    pub fn aqf_register(
        link: *mut Link,
        base: *mut c_void,
        bytes: usize,
        is_remote: c_int,
        key: u64,
        region: *mut *mut Region,
    ) -> c_int;
    pub fn aqf_region_place(region: *const Region) -> Place;
    pub fn aqf_release(region: *mut Region) -> c_int;

    pub fn aqf_read(
        link: *mut Link,
        to: *mut c_void,
        bytes: usize,
        local: *mut Region,
        from: Place,
        tag: u64,
    ) -> c_int;
    pub fn aqf_write(
        link: *mut Link,
        from: *const c_void,
        bytes: usize,
        local: *mut Region,
        to: Place,
        tag: u64,
    ) -> c_int;
    pub fn aqf_poll(link: *mut Link, completions: *mut Completion, max: c_int, timeout_ms: c_int) -> c_int;
}
