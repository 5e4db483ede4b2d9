//! What runs in a sandbox: worker and bridge; and the shim that holds a local one
