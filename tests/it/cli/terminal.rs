//! Output on a terminal of 80 columns. A pipe has no width, so Python opens a pseudo-terminal for the command.

use std::process::Command;

use super::{Run, Sandbox};

const COLUMNS: usize = 80;

/// Runs a command in a terminal of 24 lines and 80 columns, and prints its output.
const TERMINAL: &str = "
import fcntl, os, pty, struct, sys, termios
child, terminal = pty.fork()
if child == 0:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack('HHHH', 24, 80, 0, 0))
    os.execv(sys.argv[1], sys.argv[1:])
while True:
    try:
        shown = os.read(terminal, 65536)
    except OSError:
        break
    if not shown:
        break
    sys.stdout.buffer.write(shown)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
";

fn in_terminal(place: &Sandbox, args: &[&str]) -> Run {
    let mut command = Command::new("python3");
    command
        .args(["-c", TERMINAL, env!("CARGO_BIN_EXE_gavel")])
        .args(args)
        .env_clear()
        .envs(["PATH", "HOME"].map(|name| (name, std::env::var(name).unwrap_or_default())))
        .envs(place.env.iter().map(|(name, value)| (name, value)))
        .current_dir(place.path());
    Run::of(command.output().unwrap())
}

#[test]
fn judge_and_criteria_lists_fit_80_columns() {
    let has_terminal = Command::new("python3")
        .args(["-c", "import pty, os; os.waitstatus_to_exitcode"])
        .status();
    if !has_terminal.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: a terminal needs python3 in PATH, 3.9 or newer");
        return;
    }
    let place = Sandbox::new();
    for file in ["session_task", "session_outcome_first"] {
        let path = format!("{}/config/criteria/{file}.yaml", env!("CARGO_MANIFEST_DIR"));
        place.run(&["criteria", "add", &path]).ends(0);
    }
    for (list, sign) in [("judges", "openai-default"), ("criteria", "session")] {
        let shown = in_terminal(&place, &[list, "list"])
            .ends(0)
            .prints(sign)
            .out;
        let rows = shown.lines().filter(|line| line.contains(sign)).count();
        assert!(rows > 0, "{shown}");
        for line in shown.lines().map(str::trim_end) {
            let width = line.chars().count();
            // Notes on the store and on a judge are on separate lines, which a terminal wraps.
            assert!(width <= COLUMNS, "{width} columns in {list} list:\n{line}");
        }
    }
}
