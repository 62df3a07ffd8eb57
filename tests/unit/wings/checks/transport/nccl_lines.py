"""Logs of NCCL of each kind, in the form of its releases 2.18 to 2.31.

The forms of the lines are those of NCCL's sources (2.18.1 to 2.30.7) and of public threads; hosts, addresses and
numbers are made up. NVIDIA/nccl-tests: #185 (RoCE, 2.19), #188 (sockets, 2.18), #228 (NVLS), #245 (libfabric), #373 (a
plugin that NCCL_IB_DISABLE does not reach). NVIDIA/nccl: #1126 and #1231 (no plugin), #1151 (distance), #1537 and #1866
(GPUDirect that is disabled), #1584 (SHARP, 2.24), #1597 (EFA), #1925 (assigned plugins, 2.28). aws/aws-ofi-nccl: #889
(EFA). siderolabs/docs: #566 (2.28).
"""

from __future__ import annotations

IB = """\
n1:4001:4001 [0] NCCL INFO Bootstrap: Using eth0:10.0.0.1<0>
n1:4001:4001 [0] NCCL INFO cudaDriverVersion 12080
n1:4001:4001 [0] NCCL INFO NCCL version 2.27.6+cuda12.8
n1:4001:4090 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so.
n1:4001:4090 [0] NCCL INFO NCCL_IB_HCA set to mlx5
n1:4001:4090 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>
n1:4001:4090 [0] NCCL INFO Initialized NET plugin IB
n1:4001:4090 [0] NCCL INFO Assigned NET plugin IB to comm
n1:4001:4090 [0] NCCL INFO Using network IB
n1:4001:4090 [0] NCCL INFO NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'
n1:4001:4090 [0] NCCL INFO NET/IB : GPU Direct RDMA Enabled for HCA 1 'mlx5_1'
n1:4001:4090 [0] NCCL INFO === System : maxBw 48.0 totalBw 360.0 ===
n1:4001:4090 [0] NCCL INFO CPU/0-0 (1/2/-1)
n1:4001:4090 [0] NCCL INFO + PCI[48.0] - PCI/0-15000 (1000c01010000000)
n1:4001:4090 [0] NCCL INFO               + NVL[360.0] - NVS/0
n1:4001:4090 [0] NCCL INFO NVLS multicast support is available on dev 0 (NVLS_NCHANNELS 16)
n1:4001:4090 [0] NCCL INFO comm 0x55aa rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0
n1:4001:4101 [0] NCCL INFO Channel 00/0 : 15[7] -> 0[0] [receive] via NET/IB/0/GDRDMA(PCI)
n1:4001:4101 [0] NCCL INFO Channel 01/0 : 0[0] -> 8[0] [send] via NET/IB/1/GDRDMA(PCI)/Shared
n1:4001:4101 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read
n1:4001:4101 [0] NCCL INFO Connected all rings, use ring PXN 0 GDR 1
n1:4001:4090 [0] NCCL INFO ncclCommInitRankConfig comm 0x55aa rank 0 nranks 16 cudaDev 0 - Init COMPLETE
"""

IB_THROUGH_HOST = IB.replace("/GDRDMA(PCI)", "").replace("GDR 1", "GDR 0")
IB_WITHOUT_GPUDIRECT = IB_THROUGH_HOST.replace("RDMA Enabled", "RDMA Disabled")
IB_TOO_FAR = IB_THROUGH_HOST + (
    "n1:4001:4090 [0] NCCL INFO GPU Direct RDMA Disabled for GPU ca000 / HCA 0 (distance 7 > 4)\n"
)

IB_2_30 = """\
n1:1:1 [0] NCCL INFO NCCL version 2.30.7+cuda13.2
n1:1:1 [0] NCCL INFO Count not open libibverbs.so
n1:1:1 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1:0/IB [1]mlx5_1:1::3/IB [2]mlx5_2:1:1:2/IB [RO]; OOB eth0:10.0.0.1<0>
n1:1:1 [0] NCCL INFO Using network IB
n1:1:1 [0] NCCL INFO NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'
n1:1:1 [0] NCCL INFO + NVL[450.0] - NVS/0-0
n1:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0(1)/GDRDMA(PCI)
n1:1:1 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct
"""
IB_2_30_THROUGH_HOST = IB_2_30.replace("/GDRDMA(PCI)", "").replace(" via SHM/direct", " via P2P/CUMEM")

ROCE = """\
n1:460770:460770 [0] NCCL INFO Bootstrap : Using enp220s0np0:11.1.128.136<0>
n1:460770:460770 [0] NCCL INFO NET/Plugin : dlerror=libnccl-net.so: cannot open shared object file: No such file or \
directory No plugin found (libnccl-net.so), using internal implementation
n1:460770:460770 [0] NCCL INFO cudaDriverVersion 12000
NCCL version 2.19.3+cuda12.3
n1:460770:460842 [0] NCCL INFO NET/IB : Using [0]mlx5_10:1/RoCE [1]mlx5_11:1/RoCE [RO]; OOB enp220s0np0:11.1.128.136<0>
n1:460770:460842 [0] NCCL INFO Using non-device net plugin version 0
n1:460770:460842 [0] NCCL INFO Using network IB
n1:460770:460842 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/IB/0/GDRDMA
n1:460770:460842 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA
"""

ROCE_BONDED_PLUGIN = """\
n1:1884:2298 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.
n1:1884:2298 [0] NCCL INFO Plugin Path : /opt/hpcx/nccl_rdma_sharp_plugin/lib/libnccl-net.so
n1:1884:2298 [0] NCCL INFO P2P plugin IBext_v8
n1:1884:2298 [0] NCCL INFO NET/IB : Using [0]={[0] mlx5_2:1/RoCE, [1] mlx5_3:1/RoCE} [1]={[2] mlx5_0:1/RoCE, \
[3] mlx5_1:1/RoCE} [RO]; OOB bond0.526:169.136.106.9<0>
n1:1884:2298 [0] NCCL INFO Using network IBext_v8
n1:1884:2298 [0] NCCL INFO Channel 00/0 : 1[0] -> 2[0] [receive] via NET/IBext_v8/1
"""

SOCKETS_DISABLED = """\
n1:852750:852802 [0] NCCL INFO NCCL version 2.18.3+cuda12.2
n1:852750:852802 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.
n1:852750:852802 [0] NCCL INFO NET/Socket : Using [0]eth0:192.168.1.14<0>
n1:852750:852802 [0] NCCL INFO Using network Socket
n1:852750:852811 [0] NCCL INFO Channel 00/0 : 8[0] -> 0[0] [receive] via NET/Socket/0
n1:852750:852811 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/Socket/0
n1:852750:852811 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC/read
"""
_SOCKETS = SOCKETS_DISABLED.replace("n1:852750:852802 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.\n", "%s")
_SAID = "n1:852750:852802 [0] NCCL INFO "
SOCKETS_NO_VERBS = _SOCKETS % (_SAID + "Failed to open libibverbs.so[.1]\n")
SOCKETS_NO_VERBS_2_30 = _SOCKETS % (
    _SAID + "Count not open libibverbs.so\n" + _SAID + "Count not open libibverbs.so.1\n"
)
SOCKETS_NO_DEVICE = _SOCKETS % (_SAID + "NET/IB : No device found.\n")
SOCKETS_NO_MATCH = _SOCKETS % (_SAID + "NCCL_IB_HCA set to mlx5_9\n" + _SAID + "NET/IB : No device found.\n")
SOCKETS_BY_NET = _SOCKETS % (_SAID + "NCCL_NET set by environment to Socket.\n")
SOCKETS_NO_PLUGIN = _SOCKETS % (
    _SAID + "NET/Plugin: Could not find: libnccl-net.so\n" + _SAID + "NET/IB : No device found.\n"
)
SOCKETS_UNEXPLAINED = _SOCKETS % ""

EFA = """\
ip-10-0-0-1:79:2499 [0] NCCL INFO NCCL version 2.21.5+cuda12.4
ip-10-0-0-1:79:2499 [0] NCCL INFO NET/OFI Initializing aws-ofi-nccl 1.14.2
ip-10-0-0-1:79:2499 [0] NCCL INFO NET/OFI Using Libfabric version 2.1
ip-10-0-0-1:79:2499 [0] NCCL INFO NET/OFI Setting provider_filter to efa
ip-10-0-0-1:79:2499 [0] NCCL INFO NET/OFI Selected provider is efa, fabric is efa-direct (found 4 nics)
ip-10-0-0-1:79:2499 [0] NCCL INFO Using network AWS Libfabric
ip-10-0-0-1:79:2600 [0] NCCL INFO Channel 00/0 : 8[0] -> 0[0] [receive] via NET/AWS Libfabric/0/GDRDMA
ip-10-0-0-1:79:2600 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/AWS Libfabric/0/GDRDMA
"""
EFA_NEW_NAME = EFA.replace("AWS Libfabric", "Libfabric").replace("Selected provider", "Selected Provider")
LIBFABRIC_TCP = EFA.replace("is efa, fabric is efa-direct", "is tcp;ofi_rxm, fabric is 10.0.0.0/24").replace(
    "/GDRDMA", ""
)

SHARP = """\
n1:77:90 [0] NCCL INFO NCCL version 2.24.3+cuda12.2
n1:77:90 [0] NCCL INFO NET/Plugin: Loaded net plugin NCCL RDMA Plugin v8 (v8)
n1:77:90 [0] NCCL INFO NET/Plugin: Loaded collnet plugin SHARP (v8)
n1:77:90 [0] NCCL INFO NET/IB : Using [0]ibp0:1/IB/SHARP [1]ibp1:1/IB/SHARP [RO]; OOB eth0:10.7.147.73<0>
n1:77:90 [0] NCCL INFO Using network IBext_v8
n1:77:91 [0] NCCL INFO Channel 00/0 : 8[0] -> 0[0] [receive] via NET/IBext_v8/0/GDRDMA
n1:77:91 [0] NCCL INFO CollNet 00/0 : 0 [send] via COLLNET/SHARP/0/GDRDMA
n1:77:91 [0] NCCL INFO CollNet 00/0 : 0 [receive] via COLLNET/SHARP/0/GDRDMA
"""

NVLINK = """\
n1:11:22 [0] NCCL INFO NCCL version 2.31.2+cuda13.3
n1:11:22 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so
n1:11:22 [0] NCCL INFO NET/IB : No device found.
n1:11:22 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>
n1:11:22 [0] NCCL INFO Using network Socket
n1:11:22 [0] NCCL INFO             + NVL[450.0] - NVS/0
n1:11:22 [0] NCCL INFO NVLS multicast support is available on dev 0, transport enabled, symmetric multimem enabled
n1:11:22 [0] NCCL INFO comm 0x1 rank 0 nRanks 8 nNodes 1 localRanks 8 localRank 0 MNNVL 0
n1:11:22 [0] NCCL INFO Channel 30/0 : 0[0] -> 1[1] via P2P/CUMEM
n1:11:22 [0] NCCL INFO Channel 31/0 : 0[0] -> 1[1] via P2P/direct pointer
"""
NVLS_SWITCHED_OFF = NVLINK.replace("transport enabled", "transport disabled")
SHM_ON_NVSWITCH = NVLINK.replace("P2P/CUMEM", "SHM/direct/direct").replace("P2P/direct pointer", "SHM/direct/direct")
SHM_BETWEEN_PAIRS = NVLINK.replace("NVS/0", "GPU/2").replace("P2P/direct pointer", "SHM/direct/direct")
SHM_BY_VARIABLE = SHM_BETWEEN_PAIRS.replace("P2P/CUMEM", "SHM/direct/direct").replace(
    "n1:11:22 [0] NCCL INFO Using",
    "n1:11:22 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1.\nn1:1:1 [0] NCCL INFO Using",
)
SHM_ON_PCIE = """\
n1:1:1 [0] NCCL INFO NCCL version 2.28.9+cuda13.0
n1:1:1 [0] NCCL INFO + PCI[12.0] - GPU/0-1000 (0)
n1:1:1 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct
"""
ONE_DOMAIN = NVLINK.replace("nNodes 1 localRanks 8 localRank 0 MNNVL 0", "nNodes 2 localRanks 4 localRank 0 MNNVL 1")
