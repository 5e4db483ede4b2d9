//! Starts sandboxes, watches over them, finishes their work
