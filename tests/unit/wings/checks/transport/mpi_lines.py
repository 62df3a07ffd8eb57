"""What Open MPI and UCX say. Those marked as recorded were, with two processes on one node; the others are in the form
of open-mpi/ompi#6075 (mtls), #1676 and the source of `mtl_ofi_component.c` (libfabric), openucx/ucx#8699 and
parthenon-hpc-lab/parthenon#1260 (UCX between nodes), open-mpi/ompi#9080 and openucx/ucx#9560 (older UCX).
"""

from __future__ import annotations

# Recorded: Debian's Open MPI 4.1.4 with UCX 1.13.1, no adapter.
OMPI_4_TCP = """\
[vm:10889] mca: base: components_register: registering framework btl components
[vm:10889] mca: base: components_register: found loaded component openib
[vm:10889] mca: base: components_register: found loaded component tcp
[vm:10889] mca: base: components_register: found loaded component vader
[vm:10889] mca: base: components_register: found loaded component self
[vm:10889] select: initializing btl component tcp
[vm:10889] select: init of component tcp returned success
[vm:10889] select: initializing btl component vader
[vm:10889] select: init of component vader returned success
[vm:10889] select: initializing btl component self
[vm:10889] select: init of component self returned success
[vm:10889] mca: base: components_register: registering framework pml components
[vm:10889] mca: base: components_register: found loaded component cm
[vm:10889] mca: base: components_register: found loaded component ob1
[vm:10889] mca: base: components_register: found loaded component ucx
[vm:10889] select: component v not in the include list
[vm:10889] select: initializing pml component ob1
[vm:10889] select: init returned priority 20
[vm:10889] select: component monitoring not in the include list
[vm:10889] selected ob1 best priority 20
[vm:10889] select: component ob1 selected
[vm:10888] check:select: PML check not necessary on self
[vm:10889] check:select: checking my pml ob1 against process [[18042,1],0] pml ob1
[vm:10889] mca: bml: Using self btl for send to [[18042,1],1] on node vm
[vm:10889] mca: bml: Using vader btl for send to [[18042,1],0] on node vm
"""

# Recorded: Open MPI 5.0.11 with UCX 1.20.1, no adapter.
OMPI_5_OB1 = """\
[1795746943.697294] [vm:10290:0]     ucp_context.c:2463 UCX  INFO  Version 1.20.1 (loaded from /opt/libucp.so.0)
[vm:10290] mca: base: components_register: found loaded component ucx
[vm:10290] select: initializing pml component cm
[vm:10290] mca:base:select: Auto-selecting mtl components
[vm:10290] mca:base:select:(  mtl) Querying component [ofi]
[vm:10290] mca:base:select:(  mtl) Query of component [ofi] set priority to 25
[vm:10290] mca:base:select:(  mtl) Selected component [ofi]
[vm:10290] select: initializing mtl component ofi
[vm:10290] select: init returned failure for component ofi
[vm:10290] select: no component selected
[vm:10290] select: init returned failure for component cm
[vm:10290] select: initializing pml component ob1
[vm:10290] select: initializing btl component self
[vm:10290] select: init of component self returned success
[vm:10290] select: initializing btl component ofi
[vm:10290] select: init of component ofi returned failure
[vm:10290] select: initializing btl component sm
[vm:10290] select: init of component sm returned success
[vm:10290] select: initializing btl component tcp
[vm:10290] btl: tcp: exchange: 0 4 IPv6 fd00::2
[vm:10290] select: init of component tcp returned success
[vm:10290] select: initializing btl component uct
[vm:10290] select: init of component uct returned success
[vm:10290] select: init returned priority 20
[vm:10290] select: initializing pml component ucx
[vm:10290] select: init returned failure for component ucx
[vm:10290] selected ob1 best priority 20
[vm:10290] select: component ob1 selected
[vm:10290] mca: bml: Using self btl for send to [[59096,1],1] on node vm
[vm:10290] mca: bml: Using sm btl for send to [[59096,1],0] on node vm
"""
OMPI_5_TCP = OMPI_5_OB1.replace("component uct returned success", "component uct returned failure")

# Recorded: Open MPI 4.1.4 whose UCX was told to take any way.
OMPI_4_UCX = """\
[vm:10873] select: initializing pml component ucx
[1795746970.335655] [vm:10873:0]     ucp_context.c:1849 UCX  INFO  Version 1.13.1 (loaded from /lib/libucp.so.0)
[vm:10873] select: init returned priority 51
[vm:10873] selected ucx best priority 51
[vm:10873] select: component ucx selected
[1795746970.349601] [vm:10873:0]          parser.c:1916 UCX  INFO  UCX_* env variable: UCX_LOG_LEVEL=info
[1795746970.575947] [vm:10872:0]      ucp_worker.c:1763 UCX  INFO    ep_cfg[0]: tag(self/memory0 cma/memory)
[1795746970.576228] [vm:10872:0]      ucp_worker.c:1763 UCX  INFO    ep_cfg[1]: tag(sysv/memory cma/memory)
"""

# Recorded: Open MPI 5.0.11 whose UCX was told to take any way.
OMPI_5_UCX = """\
[vm:10904] selected ucx best priority 51
[1795746971.281744] [vm:10904:0]          parser.c:2364 UCX  INFO  UCX_* env variable: UCX_LOG_LEVEL=info
[1795746972.321190] [vm:10904:0] ucp_worker.c:1912 UCX  INFO    ucp_context_0 self cfg#0 tag(self/memory cma/memory)
[1795746972.334435] [vm:10904:0] ucp_worker.c:1912 UCX  INFO    ctx intra-node cfg#1 tag(sysv/memory cma/memory)
"""

UCX_INFINIBAND = OMPI_5_UCX + (
    "[1750940544.312285] [n1:7:0]  ucp_worker.c:1855 UCX  INFO    0x309e3070 inter-node cfg#6 tag(rc_mlx5/mlx5_0:1)\n"
)
UCX_TCP = OMPI_5_UCX + (
    "[1750940544.312285] [n1:7:0]  ucp_worker.c:1855 UCX  INFO    0x309e3070 inter-node cfg#6 tag(tcp/eth0)\n"
)
UCX_TOLD_TCP = OMPI_5_UCX.replace("variable: UCX_LOG_LEVEL=info", "variables: UCX_TLS=tcp,self,sm UCX_LOG_LEVEL=info")
PSM2 = """\
[gr1:180658] mca:base:select:(  mtl) Query of component [psm2] set priority to 40
[gr1:180658] mca:base:select:(  mtl) Selected component [psm2]
[gr1:180658] select: initializing mtl component psm2
[gr1:180658] select: init returned success
[gr1:180658] select: component psm2 selected
[gr1:180658] selected cm best priority 40
[gr1:180658] select: component cm selected
"""
OFI_EFA = PSM2.replace("psm2", "ofi") + "[n1:1] mtl_ofi_component.c:362: mtl:ofi:provider: rdmap0s31-rdm\n"
OFI_TCP = PSM2.replace("psm2", "ofi") + "[n1:1] mtl_ofi_component.c:366: mtl:ofi:prov: tcp;ofi_rxm\n"
OFI_SILENT = PSM2.replace("psm2", "ofi")
