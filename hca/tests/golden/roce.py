# Golden packets of RoCEv2, made by Scapy (contrib.roce): name, headers, packet with ICRC.
# Run: pip install scapy && python3 roce.py > roce.txt
from scapy.all import IP, UDP, Raw, raw
from scapy.contrib.roce import BTH
import struct
def show(name, op, ext, payload=b"", a=0, psn=0, qp=0x11, solicited=0, port=49152, ident=0):
    pad = -len(payload) % 4
    p = IP(src="10.0.0.1", dst="10.0.0.2", id=ident, flags="DF", ttl=64) / UDP(sport=port, dport=4791, chksum=0) / BTH(
        opcode=op, solicited=solicited, migreq=1, padcount=pad, version=0, pkey=0xffff, dqpn=qp, ackreq=a, psn=psn) / Raw(
        ext + payload + bytes(pad))
    b = raw(p)
    print(name, b[:28].hex(), b[28:].hex())
reth = struct.pack(">QII", 0x1122334455667788, 0xabcd0042, 5000)
imm, aeth = struct.pack(">I", 0xdeadbeef), lambda s, m: struct.pack(">I", s << 24 | m)
atomic = struct.pack(">QIQQ", 0x1122334455667788, 0xabcd0042, 3, 4)
print("# made by hca/tests/golden/roce.py with Scapy %s; if a test of it fails, the code is wrong" % __import__("scapy").VERSION)
show("send_only", 4, b"", b"hello", a=1, psn=0xfffffe)
show("send_first", 0, b"", bytes(range(256)), psn=7, ident=0x1234)
show("send_middle", 1, b"", bytes(range(256)), psn=8)
show("send_last_imm", 3, imm, b"x", a=1, psn=9, solicited=1)
show("send_only_inv", 23, imm, b"", a=1, psn=9)
show("write_only", 10, reth, b"abc", a=1, psn=10)
show("write_only_imm", 11, reth + imm, b"abcd", a=1, psn=10)
show("read_request", 12, reth, psn=11, qp=0xffffff)
show("read_response_first", 13, aeth(0x1f, 3), bytes(256), psn=11)
show("read_response_middle", 14, b"", bytes(256), psn=12)
show("read_response_last", 15, aeth(0x1f, 3), b"yy", psn=13)
show("acknowledge", 17, aeth(0x1f, 0xfffffe), psn=14)
show("nak_sequence", 17, aeth(0x60, 4), psn=14)
show("rnr_nak", 17, aeth(0x2c, 4), psn=14)
show("atomic_acknowledge", 18, aeth(0x1f, 5) + struct.pack(">Q", 0x0102030405060708), psn=15)
show("compare_swap", 19, atomic, a=1, psn=15)
show("fetch_add", 20, atomic, a=1, psn=15)
show("ud_send_only_imm", 0x65, struct.pack(">II", 0x80010001, 0x22) + imm, b"datagram!", psn=16, port=4791)
