//! The suite of every backend.

sunaba_store::conformance!(crate::support::fresh);
