//! The one place where a wish becomes a permission.
//!
//! [`resolve`] turns a `Spec` into a [`Plan`]; [`Plan::admit`] turns an `Exec` into an
//! [`ExecPlan`]. Both results have private fields and no `Deserialize`, so holding one is proof
//! that the policy has spoken. Backends accept nothing else.
//!
//! Invariant: pure functions over values. No I/O, no clock, no async.

mod admit;
mod denial;
mod disk;
mod egress;
mod environment;
mod images;
mod plan;
mod policy;
mod resolve;
mod triggers;
mod way_out;

pub use denial::Denial;
pub use disk::{Disk, Kept, KeptState, Nameplate};
pub use egress::{
    AddressClass, Allowance, EgressCeiling, EgressPlan, EgressRules, Reason, Refusal, Scope,
    Speech, Verdict,
};
pub use environment::{may_inherit, safe_variables};
pub use images::{ImageRule, InvalidImageRule};
pub use plan::{ExecPlan, Plan, Settled};
pub use policy::Policy;
pub use resolve::resolve;
pub use triggers::{GIT_TRIGGERS, HOME_TRIGGERS, WORKSPACE_TRIGGERS, holds_secrets};
pub use way_out::{Guide, NAMES_PORT, NOTES_DIR, PROXY_PORT, SOCKS_PORT, Trust};
