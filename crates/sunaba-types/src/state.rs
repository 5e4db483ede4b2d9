//! States of sandboxes, tasks and tickets. Which step between them is legal is
//! decided in `sunaba-engine`.

macro_rules! wire_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident => $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name { $($(#[$vdoc])* #[serde(rename = $text)] $variant),+ }

        impl $name {
            /// Every value, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name on the wire and in the store.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            /// Reads the wire name.
            pub fn parse(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$variant),)+ _ => None }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
pub(crate) use wire_enum;

wire_enum!(
    /// Where a sandbox is in its life.
    SandboxState {
        /// Asked for, nothing made yet.
        Pending => "pending",
        /// The provider is making it.
        Creating => "creating",
        /// Its worker has been heard.
        Running => "running",
        /// The agent says it is done; branch and result are being recorded.
        Completing => "completing",
        /// Done.
        Completed => "completed",
        /// Ended without its result.
        Failed => "failed",
        /// Ended by a person.
        Cancelled => "cancelled",
    }
);

impl SandboxState {
    /// Whether nothing can change it any more.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

wire_enum!(
    /// Where a task is in its life.
    TaskState {
        /// Waiting to be claimed.
        Pending => "pending",
        /// Taken by an orchestrator, sandbox not asked for yet.
        Claiming => "claiming",
        /// Has a sandbox that is being made.
        Assigned => "assigned",
        /// Its agent has started.
        Running => "running",
        /// Its result is being checked.
        Validating => "validating",
        /// Sent back with feedback.
        NeedsRevision => "needs_revision",
        /// Waits for a person's answer.
        WaitingInput => "waiting_input",
        /// Waits for a provider's limit to reset.
        WaitingQuota => "waiting_quota",
        /// Done.
        Completed => "completed",
        /// Failed for good.
        Failed => "failed",
        /// Ended by a person.
        Cancelled => "cancelled",
    }
);

impl TaskState {
    /// Whether the task is over (a retry starts it anew).
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

wire_enum!(
    /// Where a ticket stands.
    TicketStatus {
        /// Waits for a person's approval.
        PendingReview => "pending_review",
        /// May be worked on.
        Approved => "approved",
        /// Will not be worked on.
        Rejected => "rejected",
        /// Nobody approved it in time.
        TimedOut => "timed_out",
        /// Is being worked on.
        InProgress => "in_progress",
        /// Its result waits for review.
        InReview => "in_review",
        /// Finished.
        Done => "done",
        /// Cannot go on.
        Blocked => "blocked",
    }
);
