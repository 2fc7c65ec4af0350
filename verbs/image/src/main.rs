//! An image whose handlers use verbs.
#![no_std]
#![no_main]

use hamr_verbs as _;
hamr_device_fw::image!(tasks = 2);
