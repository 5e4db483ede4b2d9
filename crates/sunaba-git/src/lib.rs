//! Git by subprocess: mirrors, clones, branches and serving packs
