//! The provider port and the local provider
