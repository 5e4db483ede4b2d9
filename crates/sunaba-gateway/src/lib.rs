//! The only door out of a sandbox: model and git proxying, the scripted model
