//! The control stream: calls of the library itself.

use super::Node;
use crate::stream::fresh_submitter;
use crate::{CallError, SubmitError};
use hamr_comm::{Call, ErrorOf, Handler, ValueOf};
use std::sync::PoisonError;

impl Node {
    /// Calls through the control stream.
    pub(super) fn control_call<H: Handler>(&self, call: Call<H>) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
        let device = &*self.device;
        let mut control = self.common.control.lock().unwrap_or_else(PoisonError::into_inner);
        let submitter = match &mut *control {
            Some(submitter) => submitter,
            none => none.insert(Box::new(
                fresh_submitter(device, 0)
                    .map_err(|e| SubmitError::NoRoom { site: device.site::<H>("submitting"), why: e.to_string() })?,
            )),
        };
        crate::stream::sync_with(submitter, device, call)
    }
}
