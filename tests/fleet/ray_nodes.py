"""A Ray cluster on this machine, in a process of its own: `join` and `kill` on standard input add and remove a node.

It ends with its input.
"""

import sys

from ray.cluster_utils import Cluster

# Programs connect to a node with the address of their machine.  That must be the head, which is never killed.
ELSEWHERE = "127.0.0.2"

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
cluster.add_node(num_cpus=1, node_ip_address=ELSEWHERE)
sys.stdout.write(f"{cluster.address}\n")
sys.stdout.flush()
for line in sys.stdin:
    if line.strip() == "join":
        cluster.add_node(num_cpus=1, node_ip_address=ELSEWHERE)
    else:
        cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)
    sys.stdout.write("done\n")
    sys.stdout.flush()
cluster.shutdown()
