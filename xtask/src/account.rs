//! An ordinary user of this machine, as whom a contestant is run.

use std::fs;

use crate::trouble::{OrTrouble, Trouble};

/// Whose numbers a process gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) name: String,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl Account {
    /// Looks an account up in `/etc/passwd`; root is refused, for it is not ordinary.
    pub(crate) fn named(name: &str) -> Result<Self, Trouble> {
        let passwd = fs::read_to_string("/etc/passwd")
            .or_trouble(|| "could not read `/etc/passwd`".to_owned())?;
        let account = parse(&passwd, name)
            .ok_or_else(|| Trouble::new(format!("there is no account `{name}` here")))?;
        if account.uid == 0 {
            return Err(Trouble::new(format!("`{name}` is root, not an ordinary user")));
        }
        Ok(account)
    }
}

fn parse(passwd: &str, name: &str) -> Option<Account> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        if fields.next()? != name {
            return None;
        }
        let uid = fields.nth(1)?.parse().ok()?;
        let gid = fields.next()?.parse().ok()?;
        Some(Account { name: name.to_owned(), uid, gid })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_found_by_its_whole_name() {
        let passwd =
            "root:x:0:0:root:/root:/bin/sh\nnobody2:x:7:8::/:/x\nnobody:x:65534:65533::/:/x\n";
        let nobody = Account { name: "nobody".to_owned(), uid: 65534, gid: 65533 };
        assert_eq!(parse(passwd, "nobody"), Some(nobody));
        assert_eq!(parse(passwd, "body"), None);
    }
}
