//! Who the caller is to git, so that commits can be made inside.
//!
//! Only the name and the address are taken over: the rest of a git configuration can run programs
//! and hold credentials.

use std::path::Path;

use crate::config::Environment;

/// A `.gitconfig` for the sandbox's home, if the caller has a name.
pub(crate) fn for_sandbox(environment: &Environment) -> Option<String> {
    let home = environment.home();
    let config =
        environment.dir("XDG_CONFIG_HOME").or_else(|| Some(home.as_ref()?.join(".config")));
    let files =
        [config.map(|dir| dir.join("git/config")), home.map(|dir| dir.join(".gitconfig"))];
    let mut caller = User::default();
    files.iter().flatten().for_each(|path| caller.read(path));
    caller.written()
}

#[derive(Debug, Default, PartialEq, Eq)]
struct User {
    name: Option<String>,
    email: Option<String>,
}

impl User {
    /// A file that cannot be read says nothing.
    fn read(&mut self, path: &Path) {
        if let Ok(text) = std::fs::read_to_string(path) {
            self.parse(&text);
        }
    }

    fn parse(&mut self, text: &str) {
        let mut inside = false;
        for line in text.lines().map(str::trim) {
            if let Some(section) = line.strip_prefix('[') {
                let name = section.split(']').next().unwrap_or_default().trim();
                inside = name.eq_ignore_ascii_case("user");
                continue;
            }
            let Some((key, value)) = line.split_once('=').filter(|_| inside) else { continue };
            match key.trim().to_ascii_lowercase().as_str() {
                "name" => self.name = plain(value),
                "email" => self.email = plain(value),
                _ => {}
            }
        }
    }

    fn written(&self) -> Option<String> {
        let line = |key: &str, value: &Option<String>| {
            value.as_ref().map(|value| format!("\t{key} = \"{value}\"\n"))
        };
        let lines = [line("name", &self.name), line("email", &self.email)];
        let lines: Vec<String> = lines.into_iter().flatten().collect();
        (!lines.is_empty()).then(|| format!("[user]\n{}", lines.concat()))
    }
}

/// A value without quotes and comments; none if it holds what would have to be escaped.
fn plain(value: &str) -> Option<String> {
    let value = value.split(['#', ';']).next().unwrap_or_default().trim();
    let value = value.strip_prefix('"').and_then(|it| it.strip_suffix('"')).unwrap_or(value);
    let fine = |it: char| !it.is_control() && it != '"' && it != '\\';
    (!value.is_empty() && value.chars().all(fine)).then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::User;

    #[test]
    fn only_name_and_address_are_taken_over() {
        let mut user = User::default();
        user.parse(
            "[user]\n\tname = Ada Lovelace # me\n\tsigningkey = 1234\n\
             [credential]\n\thelper = store\n[User]\nemail = \"ada@example.org\"\n\
             [alias]\nname = \"!sh -c evil\"\n",
        );
        assert_eq!(
            user.written().unwrap(),
            "[user]\n\tname = \"Ada Lovelace\"\n\temail = \"ada@example.org\"\n"
        );
    }
}
