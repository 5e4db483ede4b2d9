//! Which node holds a sandbox.

use sunaba_store::Result;
use sunaba_types::{NodeId, Sandbox, SandboxId, SandboxState};

use super::{Draft, EXTERNAL};

impl Draft {
    /// Gives a pending sandbox that nobody holds to a node; the sandbox is known.
    pub fn claim_sandbox(&mut self, id: &SandboxId, node: &NodeId) -> Result<Option<Sandbox>> {
        let loaded = self.get_sandbox(id)?;
        let row = &mut loaded.row;
        if row.node_id.is_some() || row.state != SandboxState::Pending || row.provider == EXTERNAL {
            return Ok(None);
        }
        row.node_id = Some(node.clone());
        loaded.row_changed = true;
        Ok(Some(loaded.row.clone()))
    }

    /// Gives every known sandbox that somebody has begun to bring up, and nobody holds, to a node.
    pub fn take_over_begun(&mut self, node: &NodeId) {
        for loaded in self.sandboxes.values_mut() {
            let row = &mut loaded.row;
            let begun = row.state != SandboxState::Pending && !row.state.is_terminal();
            if begun && row.provider != EXTERNAL && row.node_id.is_none() {
                row.node_id = Some(node.clone());
            }
        }
    }
}
