//! The runtime port and the native agent loop with its tools
