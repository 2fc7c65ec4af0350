//! Active messages: requester, responder, dispatch.
