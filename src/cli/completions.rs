use clap::{Args, CommandFactory as _};
use clap_complete::{Shell, generate};

use super::outcome::{CliError, Exit};
use super::{Cli, output};

/// Print shell completions
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  gavel completions bash > /etc/bash_completion.d/gavel\n  gavel completions zsh > \"${fpath[1]}/_gavel\"\n  gavel completions fish > ~/.config/fish/completions/gavel.fish"
)]
pub(super) struct Completions {
    /// Shell
    shell: Shell,
}

impl Completions {
    pub(super) fn run(&self) -> Result<Exit, CliError> {
        let mut script = Vec::new();
        generate(self.shell, &mut Cli::command(), "gavel", &mut script);
        output::line(String::from_utf8_lossy(&script).trim_end())?;
        Ok(Exit::Done)
    }
}
