//! Which addresses are of the public internet.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// The IANA IPv4 Special-Purpose Address Registry and multicast, each with its prefix length.
/// Also those that can be reached from everywhere: nothing behind them is somebody's service.
const SPECIAL_V4: &[([u8; 4], u8)] = &[
    ([0, 0, 0, 0], 8),
    ([10, 0, 0, 0], 8),
    ([100, 64, 0, 0], 10),
    ([127, 0, 0, 0], 8),
    ([169, 254, 0, 0], 16),
    ([172, 16, 0, 0], 12),
    ([192, 0, 0, 0], 24),
    ([192, 0, 2, 0], 24),
    ([192, 31, 196, 0], 24),
    ([192, 52, 193, 0], 24),
    ([192, 88, 99, 0], 24),
    ([192, 168, 0, 0], 16),
    ([192, 175, 48, 0], 24),
    ([198, 18, 0, 0], 15),
    ([198, 51, 100, 0], 24),
    ([203, 0, 113, 0], 24),
    ([224, 0, 0, 0], 4),
    ([240, 0, 0, 0], 4),
];

/// The IANA IPv6 Special-Purpose Address Registry, as far as it lies in 2000::/3. All that
/// does not lie there is special: mapped and NAT64 addresses, loopback, unique local, link
/// local, site local, multicast, and what nobody has yet.
const SPECIAL_V6: &[([u16; 3], u8)] = &[
    ([0x2001, 0, 0], 23),
    ([0x2001, 0xdb8, 0], 32),
    ([0x2002, 0, 0], 16),
    ([0x2620, 0x4f, 0x8000], 48),
    ([0x3fff, 0, 0], 20),
];

/// Whether the address is none of the public internet.
pub(super) fn is_special(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_special_v4(address),
        IpAddr::V6(address) => is_special_v6(address),
    }
}

fn is_special_v4(address: Ipv4Addr) -> bool {
    let lies_in = |&(network, length): &([u8; 4], u8)| {
        let mask = u32::MAX << (32 - length);
        address.to_bits() & mask == u32::from_be_bytes(network)
    };
    SPECIAL_V4.iter().any(lies_in)
}

fn is_special_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    if segments[0] & 0xe000 != 0x2000 {
        return true;
    }
    let lies_in = |&([a, b, c], length): &([u16; 3], u8)| {
        let network = Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0);
        address.to_bits() & (u128::MAX << (128 - length)) == network.to_bits()
    };
    // ISATAP (RFC 5214) has an IPv4 address at its end, to which a router may lead.
    let is_isatap = segments[4] & 0xfdff == 0 && segments[5] == 0x5efe;
    let [.., a, b, c, d] = address.octets();
    SPECIAL_V6.iter().any(lies_in) || is_isatap && is_special_v4(Ipv4Addr::new(a, b, c, d))
}

/// Refuses an address that is not public and in no network that the operator allows.
///
/// # Errors
///
/// The address.
pub(super) fn check(address: IpAddr, allowed: &[IpNet]) -> Result<(), IpAddr> {
    let is_allowed = || allowed.iter().any(|network| network.contains(&address));
    if is_special(address) && !is_allowed() { Err(address) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_each_special_range_are_special_and_their_neighbours_are_not() {
        for (first, last) in [
            ("10.0.0.0", "10.255.255.255"),
            ("100.64.0.0", "100.127.255.255"),
            ("127.0.0.0", "127.255.255.255"),
            ("169.254.0.0", "169.254.255.255"),
            ("172.16.0.0", "172.31.255.255"),
            ("192.0.0.0", "192.0.0.255"),
            ("192.0.2.0", "192.0.2.255"),
            ("192.31.196.0", "192.31.196.255"),
            ("192.52.193.0", "192.52.193.255"),
            ("192.88.99.0", "192.88.99.255"),
            ("192.168.0.0", "192.168.255.255"),
            ("192.175.48.0", "192.175.48.255"),
            ("198.18.0.0", "198.19.255.255"),
            ("198.51.100.0", "198.51.100.255"),
            ("203.0.113.0", "203.0.113.255"),
        ] {
            let bits = |text: &str| text.parse::<Ipv4Addr>().unwrap().to_bits();
            let special = |bits: u32| is_special_v4(Ipv4Addr::from_bits(bits));
            assert!(special(bits(first)) && special(bits(last)), "{first} to {last}");
            assert!(!special(bits(first) - 1) && !special(bits(last) + 1), "beside {first} to {last}");
        }
        for special in ["0.0.0.0", "0.255.255.255", "224.0.0.0", "239.255.255.255", "240.0.0.0", "255.255.255.255"] {
            assert!(is_special(special.parse().unwrap()), "{special}");
        }
        for public in ["1.0.0.0", "1.1.1.1", "8.8.8.8", "9.255.255.255", "223.255.255.255", "93.184.216.34"] {
            assert!(!is_special(public.parse().unwrap()), "{public}");
        }
    }

    #[test]
    fn of_ipv6_only_what_was_given_to_networks_is_public() {
        for special in [
            "::",
            "::1",
            "::7f00:1",
            "::ffff:127.0.0.1",
            "::ffff:8.8.8.8",
            "64:ff9b::127.0.0.1",
            "64:ff9b::8.8.8.8",
            "64:ff9b:1::1",
            "100::1",
            "100:0:0:1::1",
            "2001::1",
            "2001:0:7f00:1::",
            "2001:1ff:ffff::1",
            "2001:db8::1",
            "2001:db8:ffff::1",
            "2002:7f00:1::1",
            "2002:808:808::1",
            "2620:4f:8000::1",
            "3fff::1",
            "3fff:fff::1",
            "4000::1",
            "5f00::1",
            "fc00::1",
            "fdff::1",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
            "ffff:ffff::1",
            "2a00:1450::5efe:10.0.0.1",
            "2a00:1450::200:5efe:127.0.0.1",
        ] {
            assert!(is_special(special.parse().unwrap()), "{special}");
        }
        for public in
            ["2001:200::1", "2606:4700::1111", "2a00:1450:4001::8", "2003::1", "2001:4860:4860::8888", "3ffe::1"]
        {
            assert!(!is_special(public.parse().unwrap()), "{public}");
        }
    }

    #[test]
    fn an_operator_opens_a_network_and_no_other_spelling_of_it() {
        let allowed = ["127.0.0.0/8".parse().unwrap(), "fd00:1::/64".parse().unwrap()];
        let may = |text: &str| check(text.parse().unwrap(), &allowed).is_ok();
        assert!(may("127.0.0.1") && may("fd00:1::9") && may("1.1.1.1"));
        assert!(!may("10.0.0.1") && !may("::1") && !may("fd00:2::9") && !may("::ffff:127.0.0.1"));
    }
}
