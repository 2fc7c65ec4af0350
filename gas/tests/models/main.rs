//! Credits and the registration cache: models of them, and random orders of their events.

mod credits;
mod firehose;
mod lease_model;
