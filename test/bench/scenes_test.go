package bench

import "fmt"

// victimScene is a row of the table that compares victims. It has a cluster, and a gang that fits
// only after an eviction. The number of nodes is a multiple of 20. Nodes differ only in their size
// and in their pods.
type victimScene struct {
	name, cluster, gang string
	make                func(nodes int) *scene
	// nodes is the number of nodes in the cluster; 0 for the default number of the table.
	nodes int
	// slow is true if Reprieve takes seconds to decide.
	slow bool
}

func victimScenes() []victimScene {
	return []victimScene{
		{name: "half-empty cluster", cluster: "every second node is empty, each other node has four pods", gang: "one more member than empty nodes; each member needs a whole node", make: halfEmpty},
		{name: "members apart", cluster: "the members may use half of the nodes, and half of these are empty", gang: "members that must be on different nodes", make: halfEmptyApart, nodes: 100},
		{name: "mixed priorities, node by node", cluster: "eight pods on each node; all pods of a node have one priority, from 10 to 50", gang: "whole nodes, a tenth of them", make: mixedNodes},
		{name: "mixed priorities on each node", cluster: "eight pods on each node, with priorities from 10 to 80", gang: "a member of the size of one pod for every second node", make: mixedPods},
		{name: "whole groups, close together", cluster: "groups of 16 pods that are evicted whole, each on two nodes", gang: "whole nodes, a tenth of them", make: closeGroups},
		{name: "whole groups, far apart", cluster: "groups of 8 pods that are evicted whole, each on eight nodes", gang: "whole nodes, a tenth of them", make: scattered},
		{name: "budgets", cluster: "eight pods on each node; on every second node, a budget allows no disruption", gang: "whole nodes, a quarter of them", make: guarded},
		{name: "surplus past minCount", cluster: "four pods on each node", gang: "whole nodes, half of them, but a tenth is enough", make: surplus},
		{name: "heterogeneous nodes", cluster: "nodes of 4, 8 and 16 GPUs, full of pods of 1, 4 and 2 GPUs", gang: "a member of 4 GPUs for every fourth node", make: heterogeneous},
		{name: "one short on every node", cluster: "seven pods of one GPU on each node of eight", gang: "a member of 2 GPUs for every second node", make: oneShort},
		{name: "all of it", cluster: "four pods on each node", gang: "whole nodes, all of them", make: allOfIt},
	}
}

// slowScenes returns rows that only the documented table has. The tests omit them, because they are
// slow.
func slowScenes() []victimScene {
	return []victimScene{
		{name: "members apart, few", cluster: "as above", gang: "members that must be on different nodes", make: halfEmptyApart, nodes: 20, slow: true},
	}
}

var (
	small = amounts{4000, 32, 0}
	big   = amounts{64_000, 512, 8}
	// Eight pods that request aGPU fill a big node. Four pods that request oneCPU fill a small
	// node.
	aGPU   = amounts{1000, 4, 1}
	oneCPU = amounts{1000, 2, 0}
	// A pod that requests wholeBig fills a big node, and a pod that requests wholeSmall fills a
	// small node.
	wholeBig   = amounts{8000, 32, 8}
	wholeSmall = amounts{4000, 8, 0}
)

// full returns a scene with nodes of one size. Each node runs perNode pods with the same request.
func full(nodes int, size amounts, perNode int, pod amounts, priority func(n, i int) int32) *scene {
	s := &scene{}
	for n := range nodes {
		s.addNode(size)
		for i := range perNode {
			s.addPod(n, pod, priority(n, i))
		}
	}
	return s
}

func always(priority int32) func(n, i int) int32 { return func(int, int) int32 { return priority } }

func halfEmptyNodes(nodes int, filled func(n int) bool) *scene {
	s := &scene{}
	for n := range nodes {
		s.addNode(small)
		for range 4 {
			if filled(n) {
				s.addPod(n, oneCPU, 10)
			}
		}
	}
	return s
}

func halfEmpty(nodes int) *scene {
	s := halfEmptyNodes(nodes, func(n int) bool { return n%2 == 1 })
	s.addGang(nodes/2+1, nodes/2+1, wholeSmall)
	return s
}

func halfEmptyApart(nodes int) *scene {
	s := halfEmptyNodes(nodes, func(n int) bool { return n%4 == 2 })
	s.addGang(nodes/4+1, nodes/4+1, amounts{2000, 4, 0})
	for _, pod := range s.pending {
		apart(pod)
	}
	return s
}

func mixedNodes(nodes int) *scene {
	s := full(nodes, big, 8, aGPU, func(n, _ int) int32 { return int32(10 * (1 + n*7%5)) })
	s.addGang(nodes/10, nodes/10, wholeBig)
	return s
}

func mixedPods(nodes int) *scene {
	s := full(nodes, big, 8, aGPU, func(n, i int) int32 { return int32(10 * (1 + (n*3+i)%8)) })
	s.addGang(nodes/2, nodes/2, aGPU)
	return s
}

// inGroups makes the running pods members of PodGroups that are evicted as a whole. The function of
// returns the number of the PodGroup for pod i on node n.
func inGroups(s *scene, of func(n, i int) int) *scene {
	known := make(map[int]int)
	for n, pods := range s.running {
		for i, pod := range pods {
			g := of(n, i)
			at, ok := known[g]
			if !ok {
				at = len(s.groups)
				known[g] = at
				s.addGroup(groupName(g), *pod.Spec.Priority)
			}
			join(pod, s.groups[at])
		}
	}
	return s
}

func closeGroups(nodes int) *scene {
	// The two nodes of a PodGroup are far apart in the order of nodes.
	s := inGroups(full(nodes, big, 8, aGPU, always(10)), func(n, _ int) int { return n * 37 % nodes / 2 })
	s.addGang(nodes/10, nodes/10, wholeBig)
	return s
}

func scattered(nodes int) *scene {
	// Each pod on a node belongs to another PodGroup. The pods of a PodGroup run on eight nodes.
	s := inGroups(full(nodes, big, 8, aGPU, always(10)), func(n, i int) int { return (n + i*7) % nodes })
	s.addGang(nodes/10, nodes/10, wholeBig)
	return s
}

func guarded(nodes int) *scene {
	s := full(nodes, big, 8, aGPU, always(10))
	for n, pods := range s.running {
		for _, pod := range pods {
			pod.Labels["app"] = fmt.Sprintf("guarded-%t", n%2 == 0)
		}
	}
	s.addBudget("guarded-true", 0)
	s.addGang(nodes/4, nodes/4, wholeBig)
	return s
}

func surplus(nodes int) *scene {
	s := full(nodes, small, 4, oneCPU, always(10))
	s.addGang(nodes/10, nodes/2, wholeSmall)
	return s
}

func heterogeneous(nodes int) *scene {
	s := &scene{}
	for range nodes {
		switch n := len(s.nodes); n % 3 {
		case 0:
			s.addFull(amounts{64_000, 512, 4}, 4, aGPU)
		case 1:
			s.addFull(big, 2, amounts{4000, 16, 4})
		default:
			s.addFull(amounts{64_000, 512, 16}, 8, amounts{2000, 8, 2})
		}
	}
	s.addGang(nodes/4, nodes/4, amounts{4000, 16, 4})
	return s
}

// addFull adds a node with the given number of pods.
func (s *scene) addFull(size amounts, pods int, pod amounts) {
	n := s.addNode(size)
	for range pods {
		s.addPod(n, pod, 10)
	}
}

func oneShort(nodes int) *scene {
	s := full(nodes, big, 7, aGPU, always(10))
	s.addGang(nodes/2, nodes/2, amounts{2000, 8, 2})
	return s
}

func allOfIt(nodes int) *scene {
	s := full(nodes, small, 4, oneCPU, always(10))
	s.addGang(nodes, nodes, wholeSmall)
	return s
}
