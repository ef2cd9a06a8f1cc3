//! Private nginx: authenticates as in docs/deploy.md, in front of a Gavel.

use std::net::SocketAddr;

use tokio::process::Command;

use super::process::{Process, answers, free_address, is_root, program};

/// nginx in front of a Gavel; stops on drop.
pub(crate) struct Nginx {
    pub(crate) address: SocketAddr,
    _process: Process,
    _dir: tempfile::TempDir,
}

impl Nginx {
    /// Starts nginx; `None`, with a message, if it isn't installed. In place of oauth2-proxy it uses a local location
    /// that trusts the cookies `login` and `groups`.
    pub(crate) async fn start(gavel: &str) -> Option<Self> {
        let Some(nginx) = program("nginx", &["/usr/sbin", "/usr/local/sbin"]) else {
            eprintln!("NOT TESTED BEHIND NGINX: there is no nginx (Debian: apt install nginx)");
            return None;
        };
        let (address, auth) = (free_address(), free_address());
        let dir = tempfile::tempdir().unwrap();
        let user = if is_root() { "user root;" } else { "" };
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|of| format!("{of}_temp_path {of};\n"))
            .concat();
        let text = format!(
            "{user} daemon off; master_process off; pid nginx.pid; error_log stderr;
             events {{}}
             http {{
               access_log off; {temporary}
               server {{
                 listen {auth};
                 location / {{
                   if ($cookie_login = '') {{ return 401; }}
                   add_header X-Auth-Request-User $cookie_login;
                   add_header X-Auth-Request-Groups $cookie_groups;
                   return 204;
                 }}
               }}
               server {{
                 listen {address};
                 location = /oauth2/auth {{
                   internal;
                   proxy_pass http://{auth};
                   proxy_set_header Content-Length '';
                   proxy_pass_request_body off;
                 }}
                 location / {{
                   auth_request /oauth2/auth;
                   auth_request_set $user $upstream_http_x_auth_request_user;
                   auth_request_set $groups $upstream_http_x_auth_request_groups;
                   proxy_pass {gavel};
                   proxy_set_header Host $http_host;
                   proxy_set_header X-Forwarded-User $user;
                   proxy_set_header X-Forwarded-Groups $groups;
                   proxy_set_header X-Forwarded-Email '';
                   proxy_set_header X-Remote-User '';
                   proxy_set_header Authorization '';
                 }}
               }}
             }}"
        );
        let file = dir.path().join("nginx.conf");
        std::fs::write(&file, text).unwrap();
        let mut command = Command::new(nginx);
        command.arg("-p").arg(dir.path()).arg("-c").arg(&file);
        command.args(["-e", "stderr"]);
        let process = Process::spawn("nginx", dir.path(), command);
        answers(address).await;
        Some(Self {
            address,
            _process: process,
            _dir: dir,
        })
    }
}
