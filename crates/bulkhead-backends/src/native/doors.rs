//! Takes over the doors that a child has opened.

use std::os::fd::BorrowedFd;

use bulkhead_linux::doors::receive;
use bulkhead_policy::Plan;

use super::create::built;
use crate::{
    BackendError, Doors,
    doors::{has, sorted},
};

/// Takes over what the child has opened; nothing from one that has failed, whose silence tells.
pub(super) fn take(
    plan: &Plan,
    from: BorrowedFd<'_>,
    child: BorrowedFd<'_>,
) -> Result<Option<Doors>, BackendError> {
    if !has(plan) {
        return Ok(None);
    }
    let sockets = receive(from, child).map_err(built("take over the sandbox's doors"))?;
    Ok(sorted(plan, sockets))
}
