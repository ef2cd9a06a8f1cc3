//! Parses `redis.url`. No I/O.
//!
//! Three forms: `redis://host:6379/0` (one server, or any node of a cluster), `redis+cluster://host:6379,host2:6379`
//! (several seed nodes), `redis+sentinel://host:26379,host2:26379/mymaster/0` (the primary reported by sentinels).
//! `rediss` instead of `redis` means TLS. User and password before the hosts belong to the servers. Sentinels have
//! their own in `?sentinel_username=…&sentinel_password=…`.

use redis::{ConnectionAddr, ConnectionInfo, ErrorKind, IntoConnectionInfo as _, RedisError};

const SENTINEL_PORT: u16 = 26_379;

#[derive(Clone)]
pub(super) enum Address {
    /// One server, or nodes of a cluster.
    Servers {
        first: ConnectionInfo,
        more: Vec<ConnectionInfo>,
    },
    /// Sentinels that report the primary of a service.
    Sentinels {
        sentinels: Vec<ConnectionInfo>,
        service: String,
        /// Connection settings of the primary. Sentinels report its host.
        server: ConnectionInfo,
    },
}

impl Address {
    pub(super) fn parse(url: &str) -> Result<Self, RedisError> {
        let (scheme, rest) = url.split_once("://").ok_or_else(|| invalid("no scheme"))?;
        let (scheme, form) = scheme.split_once('+').unwrap_or((scheme, ""));
        match form {
            "cluster" => Self::servers(scheme, &AddressParts::split(rest)),
            "sentinel" => Self::sentinels(scheme, &AddressParts::split(rest)),
            _ => Ok(Self::Servers {
                first: url.into_connection_info()?,
                more: Vec::new(),
            }),
        }
    }

    fn servers(scheme: &str, parts: &AddressParts<'_>) -> Result<Self, RedisError> {
        let AddressParts {
            user, path, query, ..
        } = parts;
        let mut servers = parts
            .hosts()
            .map(|host| format!("{scheme}://{user}{host}{path}{query}").into_connection_info());
        let first = servers.next().ok_or_else(|| invalid("no host"))??;
        Ok(Self::Servers {
            first,
            more: servers.collect::<Result<_, _>>()?,
        })
    }

    fn sentinels(scheme: &str, parts: &AddressParts<'_>) -> Result<Self, RedisError> {
        let path = parts.path.trim_start_matches('/');
        let (service, database) = path.split_once('/').unwrap_or((path, ""));
        if service.is_empty() {
            return Err(invalid(
                "the service's name is missing: redis+sentinel://host:26379/mymaster",
            ));
        }
        let AddressParts { user, query, .. } = parts;
        let own = match (
            parts.query_value("sentinel_username"),
            parts.query_value("sentinel_password"),
        ) {
            (name, Some(password)) => format!("{}:{password}@", name.unwrap_or_default()),
            (_, None) => String::new(),
        };
        let sentinels = parts.hosts().map(|host| {
            let at = format!("{scheme}://{own}{host}").into_connection_info()?;
            Ok(if has_port(host) {
                at
            } else {
                with_host(&at, &host_of(&at), SENTINEL_PORT)
            })
        });
        let sentinels: Vec<_> = sentinels.collect::<Result<_, RedisError>>()?;
        let any = parts.hosts().next().ok_or_else(|| invalid("no host"))?;
        let server = format!("{scheme}://{user}{any}/{database}{query}").into_connection_info()?;
        Ok(Self::Sentinels {
            sentinels,
            service: service.to_owned(),
            server,
        })
    }

    /// Returns the settings for a server reported by another one: same user, password, database and encryption.
    pub(super) fn server_at(&self, host: &str, port: u16) -> ConnectionInfo {
        let (Self::Servers { first: server, .. } | Self::Sentinels { server, .. }) = self;
        with_host(server, host, port)
    }
}

pub(super) fn host_of(server: &ConnectionInfo) -> String {
    if let ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } = server.addr() {
        host.clone()
    } else {
        server.addr().to_string()
    }
}

/// Splits `host:port`. The host may be an IPv6 address with or without brackets.
pub(super) fn split(node: &str) -> Option<(&str, u16)> {
    let (host, port) = node.rsplit_once(':')?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    Some((host, port.parse().ok()?))
}

fn with_host(like: &ConnectionInfo, host: &str, port: u16) -> ConnectionInfo {
    let addr = if let ConnectionAddr::TcpTls {
        insecure,
        tls_params,
        ..
    } = like.addr()
    {
        ConnectionAddr::TcpTls {
            host: host.to_owned(),
            port,
            insecure: *insecure,
            tls_params: tls_params.clone(),
        }
    } else {
        ConnectionAddr::Tcp(host.to_owned(), port)
    };
    like.clone().set_addr(addr)
}

fn has_port(host: &str) -> bool {
    host.rsplit_once(':')
        .is_some_and(|(_, port)| !port.is_empty() && port.chars().all(|c| c.is_ascii_digit()))
        && !host.ends_with(']')
}

fn invalid(why: &'static str) -> RedisError {
    RedisError::from((ErrorKind::InvalidClientConfig, why))
}

struct AddressParts<'a> {
    /// `user:password@` or empty.
    user: &'a str,
    hosts: &'a str,
    /// Empty or starts with a slash.
    path: &'a str,
    /// Empty or starts with `?` or `#`.
    query: &'a str,
}

impl<'a> AddressParts<'a> {
    fn split(rest: &'a str) -> Self {
        let (rest, query) = rest.split_at(rest.find(['?', '#']).unwrap_or(rest.len()));
        let (user, rest) = rest.split_at(rest.rfind('@').map_or(0, |at| at + 1));
        let (hosts, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        Self {
            user,
            hosts,
            path,
            query,
        }
    }

    fn hosts(&self) -> impl Iterator<Item = &'a str> {
        self.hosts
            .split(',')
            .map(str::trim)
            .filter(|host| !host.is_empty())
    }

    /// Returns the raw value of a query parameter.
    fn query_value(&self, name: &str) -> Option<&'a str> {
        let query = self.query.strip_prefix('?')?;
        let query = query.split('#').next().unwrap_or(query);
        query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .find_map(|(key, value)| (key == name).then_some(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name_of(server: &ConnectionInfo) -> String {
        server.addr().to_string()
    }

    fn servers(url: &str) -> Vec<ConnectionInfo> {
        match Address::parse(url).unwrap() {
            Address::Servers { first, more } => std::iter::once(first).chain(more).collect(),
            Address::Sentinels { .. } => panic!("{url}: sentinels"),
        }
    }

    #[test]
    fn cluster_nodes_share_one_user() {
        let nodes = servers("rediss+cluster://user:p%40ss@a:7000,b,[::1]:7002");
        let names: Vec<String> = nodes.iter().map(name_of).collect();
        assert_eq!(names, ["a:7000", "b:6379", "::1:7002"]);
        for node in &nodes {
            assert_eq!(node.redis_settings().username(), Some("user"));
            assert_eq!(node.redis_settings().password(), Some("p@ss"));
            assert!(matches!(node.addr(), ConnectionAddr::TcpTls { .. }));
        }
        assert_eq!(servers("redis://a:1/2")[0].redis_settings().db(), 2);
    }

    #[test]
    fn parses_sentinels_with_service_and_password() {
        let url = "redis+sentinel://:secret@s1,s2:5000/mymaster/3?sentinel_password=other";
        let address = Address::parse(url).unwrap();
        let Address::Sentinels {
            sentinels, service, ..
        } = &address
        else {
            panic!("no sentinels");
        };
        assert_eq!(service, "mymaster");
        let names: Vec<String> = sentinels.iter().map(name_of).collect();
        assert_eq!(names, ["s1:26379", "s2:5000"]);
        assert_eq!(sentinels[0].redis_settings().password(), Some("other"));
        let server = address.server_at("10.0.0.7", 6400);
        assert_eq!(name_of(&server), "10.0.0.7:6400");
        assert_eq!(server.redis_settings().password(), Some("secret"));
        assert_eq!(server.redis_settings().db(), 3);
    }

    #[test]
    fn rejects_incomplete_address() {
        for url in [
            "redis+sentinel://host:26379",
            "redis+cluster://",
            "redis+else://host",
            "host:6379",
        ] {
            assert!(Address::parse(url).is_err(), "{url}");
        }
    }

    #[test]
    fn splits_host_and_port() {
        assert_eq!(split("10.0.0.1:7000"), Some(("10.0.0.1", 7000)));
        assert_eq!(split("fd00::1:7000"), Some(("fd00::1", 7000)));
        assert_eq!(split("[fd00::1]:7000"), Some(("fd00::1", 7000)));
        assert_eq!(split("no-port"), None);
    }
}
