//! The Messages API: types, streaming client, stream parser
