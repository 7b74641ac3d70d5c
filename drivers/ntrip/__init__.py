"""NTRIP client: corrections from a caster on the internet, as a protocol machine on a TCP or TLS byte port."""
