//! The groups: one line per tool, one entry per host.

use super::Group;

/// Every group there is.
pub const GROUPS: &[Group] = &[
    Group {
        name: "anthropic",
        says: "Claude: its API and what Claude Code needs to sign in and update",
        hosts: &[
            "api.anthropic.com",
            "console.anthropic.com",
            "platform.claude.com",
            "claude.ai",
        ],
    },
    Group {
        name: "openai",
        says: "OpenAI: its API and what Codex needs to sign in",
        hosts: &["api.openai.com", "auth.openai.com", "chatgpt.com"],
    },
    Group {
        name: "google",
        says: "Gemini: its API and what its command line needs to sign in",
        hosts: &[
            "generativelanguage.googleapis.com",
            "aiplatform.googleapis.com",
            "cloudcode-pa.googleapis.com",
            "oauth2.googleapis.com",
            "accounts.google.com",
        ],
    },
    Group {
        name: "mistral",
        says: "Mistral: its API",
        hosts: &["api.mistral.ai", "codestral.mistral.ai"],
    },
    Group { name: "openrouter", says: "OpenRouter: its API", hosts: &["openrouter.ai"] },
    Group { name: "xai", says: "Grok: its API", hosts: &["api.x.ai"] },
    Group { name: "deepseek", says: "DeepSeek: its API", hosts: &["api.deepseek.com"] },
    Group { name: "groq", says: "Groq: its API", hosts: &["api.groq.com"] },
    Group {
        name: "huggingface",
        says: "Hugging Face: models, data sets, their files",
        hosts: &["huggingface.co", "*.huggingface.co", "**.hf.co"],
    },
    Group {
        name: "github",
        says: "GitHub: repositories over HTTPS and ssh, API, releases, raw files",
        hosts: &[
            "github.com",
            "github.com:22",
            "api.github.com",
            "codeload.github.com",
            "uploads.github.com",
            "raw.githubusercontent.com",
            "objects.githubusercontent.com",
            "release-assets.githubusercontent.com",
            "github-releases.githubusercontent.com",
            "media.githubusercontent.com",
            "gist.githubusercontent.com",
            "avatars.githubusercontent.com",
            "ghcr.io",
            "pkg-containers.githubusercontent.com",
        ],
    },
    Group {
        name: "gitlab",
        says: "gitlab.com: repositories over HTTPS and ssh, API",
        hosts: &["gitlab.com", "gitlab.com:22", "registry.gitlab.com"],
    },
    Group {
        name: "bitbucket",
        says: "Bitbucket: repositories over HTTPS and ssh, API",
        hosts: &["bitbucket.org", "bitbucket.org:22", "api.bitbucket.org"],
    },
    Group {
        name: "npm",
        says: "npm, yarn, pnpm: packages and the sources of node itself",
        hosts: &[
            "registry.npmjs.org",
            "registry.yarnpkg.com",
            "repo.yarnpkg.com",
            "nodejs.org",
        ],
    },
    Group {
        name: "pypi",
        says: "pip, uv, poetry: the index and its files",
        hosts: &["pypi.org", "files.pythonhosted.org", "pypi.python.org"],
    },
    Group {
        name: "conda",
        says: "conda: packages",
        hosts: &["conda.anaconda.org", "repo.anaconda.com"],
    },
    Group {
        name: "crates",
        says: "cargo, rustup: index, crates, toolchains",
        hosts: &[
            "crates.io",
            "index.crates.io",
            "static.crates.io",
            "static.rust-lang.org",
            "sh.rustup.rs",
        ],
    },
    Group {
        name: "go",
        says: "go: module proxy, checksums, toolchains",
        hosts: &["proxy.golang.org", "sum.golang.org", "go.dev", "dl.google.com", "golang.org"],
    },
    Group {
        name: "maven",
        says: "Maven, Gradle: artifacts and the wrapper's downloads",
        hosts: &[
            "repo.maven.apache.org",
            "repo1.maven.org",
            "plugins.gradle.org",
            "services.gradle.org",
            "downloads.gradle.org",
            "maven.google.com",
        ],
    },
    Group {
        name: "rubygems",
        says: "gem, bundler: gems and their index",
        hosts: &["rubygems.org", "index.rubygems.org"],
    },
    Group {
        name: "packagist",
        says: "composer: packages",
        hosts: &["packagist.org", "repo.packagist.org", "getcomposer.org"],
    },
    Group {
        name: "nuget",
        says: "dotnet: packages and the toolchain's downloads",
        hosts: &["api.nuget.org", "www.nuget.org", "builds.dotnet.microsoft.com"],
    },
    Group { name: "hex", says: "mix, rebar: packages", hosts: &["hex.pm", "repo.hex.pm"] },
    Group { name: "dart", says: "dart, flutter: packages", hosts: &["pub.dev"] },
    Group {
        name: "debian",
        says: "apt on Debian",
        hosts: &["deb.debian.org", "security.debian.org", "ftp.debian.org"],
    },
    Group {
        name: "ubuntu",
        says: "apt on Ubuntu",
        hosts: &[
            "archive.ubuntu.com",
            "*.archive.ubuntu.com",
            "security.ubuntu.com",
            "ports.ubuntu.com",
        ],
    },
    Group { name: "alpine", says: "apk on Alpine", hosts: &["dl-cdn.alpinelinux.org"] },
    Group {
        name: "fedora",
        says: "dnf on Fedora",
        hosts: &["mirrors.fedoraproject.org", "dl.fedoraproject.org"],
    },
    Group {
        name: "docker",
        says: "docker pull from Docker's registry",
        hosts: &[
            "registry-1.docker.io",
            "auth.docker.io",
            "index.docker.io",
            "production.cloudflare.docker.com",
        ],
    },
    Group {
        name: "doh",
        says: "resolvers over HTTPS: allow them and every name can be asked; meant for --deny",
        hosts: &[
            "dns.google",
            "dns.google.com",
            "cloudflare-dns.com",
            "*.cloudflare-dns.com",
            "one.one.one.one",
            "dns.quad9.net",
            "*.quad9.net",
            "doh.opendns.com",
            "dns.adguard-dns.com",
            "dns.nextdns.io",
            "doh.cleanbrowsing.org",
            "dns.mullvad.net",
            "doh.applied-privacy.net",
        ],
    },
];
