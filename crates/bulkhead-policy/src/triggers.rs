//! Files in a workspace that the host's user, or a tool of theirs, would run later.
//!
//! An agent that writes one of them has code on the host without a break-out: the next `cd`,
//! `git status` or opened editor runs it. So a live workspace shows them read-only, and those that
//! are absent cannot be made (CVE-2026-25725).

/// Relative to the workspace. A directory is protected with all that it holds.
pub const WORKSPACE_TRIGGERS: &[&str] = &[
    ".bulkhead",
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".codex",
    ".cursor",
    ".devcontainer",
    ".envrc",
    ".gemini",
    ".idea",
    ".mcp.json",
    ".vscode",
];

/// The shell's own, relative to a home directory. Nothing runs them anywhere else, so in another
/// workspace only those that are there are protected.
pub const HOME_TRIGGERS: &[&str] = &[
    ".bash_aliases",
    ".bash_login",
    ".bash_logout",
    ".bash_profile",
    ".bashrc",
    ".profile",
    ".zlogin",
    ".zlogout",
    ".zprofile",
    ".zshenv",
    ".zshrc",
];

/// Relative to a git directory. `commondir` and `config.worktree` lead git to another
/// configuration; `info/attributes` names filters; `modules` holds git directories of submodules.
pub const GIT_TRIGGERS: &[&str] =
    &["hooks", "config", "config.worktree", "commondir", "info/attributes"];

/// Whether a file of this name usually holds secrets: `.env` and its kin, but not their samples.
///
/// Case does not matter, because on some file systems it does not (CVE-2025-59944).
pub fn holds_secrets(name: &[u8]) -> bool {
    let sample = [&b".example"[..], b".sample", b".template", b".dist"];
    let lower = name.to_ascii_lowercase();
    let Some(rest) = lower.strip_prefix(b".env") else { return false };
    let named = matches!(rest, [] | b"rc" | [b'.' | b'-' | b'_' | b'~', ..]);
    named && !sample.iter().any(|end| rest.ends_with(end))
}
