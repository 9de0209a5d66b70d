//! Handing the filter to the kernel, from where there is no way back.

use std::io;

use super::Filter;

impl Filter {
    /// Puts every thread of this process, and all that it will ever start, under the filter.
    ///
    /// # Guarantees
    /// After `Ok` no thread runs without it. After `Err` none runs under it. Nothing is allocated
    /// and no lock is taken, so this may be called between a fork and an exec.
    ///
    /// # Assumptions
    /// The caller has set `no_new_privs`. Without it this fails with `EACCES` also for root, whom
    /// the kernel would let pass: a set-user-id program under a filter can be led astray by it.
    pub fn install(&self) -> io::Result<()> {
        if !rustix::thread::no_new_privs()? {
            return Err(io::Error::from_raw_os_error(libc::EACCES));
        }
        let Ok(len) = u16::try_from(self.instructions.len()) else {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        };
        let program =
            libc::sock_fprog { len, filter: self.instructions.as_ptr().cast_mut().cast() };
        // SAFETY: `program` points to `len` instructions whose layout is that of `sock_filter`,
        // which the kernel copies and never writes to.
        let answer = unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                libc::SECCOMP_FILTER_FLAG_TSYNC,
                &raw const program,
            )
        };
        match answer {
            0 => Ok(()),
            -1 => Err(io::Error::last_os_error()),
            // The id of a thread that could not follow, because it has a filter of its own.
            _ => Err(io::Error::from_raw_os_error(libc::ESRCH)),
        }
    }
}
