//! Networks in CIDR notation: which peers are believed.

use std::net::IpAddr;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Networks(Vec<(IpAddr, u8)>);

impl Networks {
    /// Reads `address/bits` each, or an address alone.
    pub(crate) fn parse(texts: &[String]) -> Result<Self, String> {
        texts
            .iter()
            .map(|text| network(text))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Whether an address lies in one of them.
    pub(crate) fn contain(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0
            .iter()
            .any(|(network, bits)| match (network, address) {
                (IpAddr::V4(network), IpAddr::V4(address)) => {
                    let mask = u32::MAX.checked_shl(32 - u32::from(*bits)).unwrap_or(0);
                    (network.to_bits() ^ address.to_bits()) & mask == 0
                }
                (IpAddr::V6(network), IpAddr::V6(address)) => {
                    let mask = u128::MAX.checked_shl(128 - u32::from(*bits)).unwrap_or(0);
                    (network.to_bits() ^ address.to_bits()) & mask == 0
                }
                (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
            })
    }
}

fn network(text: &str) -> Result<(IpAddr, u8), String> {
    let fault = || format!("{text:?} is not a network: write it as 10.0.0.0/8 or fd00::/8");
    let (address, bits) = match text.trim().split_once('/') {
        Some((address, bits)) => (address, Some(bits)),
        None => (text.trim(), None),
    };
    let address: IpAddr = address.parse().map_err(|_| fault())?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = match bits {
        Some(bits) => bits
            .parse()
            .ok()
            .filter(|bits| *bits <= most)
            .ok_or_else(fault)?,
        None => most,
    };
    Ok((address, bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_in_its_network_and_no_other() {
        let cases = [
            ("127.0.0.0/8", "127.9.9.9", true),
            ("127.0.0.0/8", "128.0.0.1", false),
            ("127.0.0.0/8", "::ffff:127.0.0.1", true),
            ("10.1.2.3", "10.1.2.3", true),
            ("10.1.2.3", "10.1.2.4", false),
            ("0.0.0.0/0", "203.0.113.9", true),
            ("0.0.0.0/0", "::1", false),
            ("::1/128", "::1", true),
            ("fd00::/8", "fdff::1", true),
            ("fd00::/8", "fe00::1", false),
        ];
        for (network, address, inside) in cases {
            let networks = Networks::parse(&[network.to_owned()]).unwrap();
            assert_eq!(
                networks.contain(address.parse().unwrap()),
                inside,
                "{network} {address}"
            );
        }
    }

    #[test]
    fn a_network_that_is_none_is_an_error() {
        for text in ["", "10.0.0.0/33", "::1/129", "example.org", "10.0.0.0/x"] {
            assert!(Networks::parse(&[text.to_owned()]).is_err(), "{text}");
        }
    }
}
