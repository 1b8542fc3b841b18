package playground

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	defaultNodePrefix = "node"
	defaultPods       = "110"
	nodeArchitecture  = "amd64"
	nodeSystem        = "linux"

	// nodeCreators is the maximum number of concurrent calls that create nodes.
	nodeCreators = 16

	// nodesPerPoll determines the interval between polls: one pollInterval per this number of
	// nodes. With more nodes, polls are less frequent and do not slow down the start of the nodes.
	nodesPerPoll = 100
)

// buildNodes returns the nodes of all groups. version is the kubelet version of each node.
func buildNodes(groups []NodeGroup, version string) []*corev1.Node {
	var nodes []*corev1.Node
	counts := map[string]int{}
	// Node addresses must not overlap with podRange and serviceRange.
	ip := netip.AddrFrom4([4]byte{10, 64, 0, 1})
	for _, group := range groups {
		prefix := group.Prefix
		if prefix == "" {
			prefix = defaultNodePrefix
		}
		for range group.Count {
			name := prefix + "-" + strconv.Itoa(counts[prefix])
			counts[prefix]++
			nodes = append(nodes, buildNode(name, zoneOf(len(nodes)), ip, version, group))
			ip = ip.Next()
		}
	}
	return nodes
}

// zoneOf returns the zone of the node with an index. The nodes are spread over three zones in turn.
func zoneOf(index int) string {
	return "zone-" + string(rune('a'+index%3))
}

func buildNode(name, zone string, ip netip.Addr, version string, group NodeGroup) *corev1.Node {
	labels := map[string]string{
		corev1.LabelHostname:     name,
		corev1.LabelArchStable:   nodeArchitecture,
		corev1.LabelOSStable:     nodeSystem,
		corev1.LabelTopologyZone: zone,
	}
	maps.Copy(labels, group.Labels)
	resources := group.Resources.DeepCopy()
	if resources == nil {
		resources = corev1.ResourceList{}
	}
	if _, ok := resources[corev1.ResourcePods]; !ok {
		resources[corev1.ResourcePods] = resource.MustParse(defaultPods)
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec:       corev1.NodeSpec{Taints: group.Taints},
		Status: corev1.NodeStatus{
			Capacity:    resources,
			Allocatable: resources.DeepCopy(),
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: ip.String()},
				{Type: corev1.NodeHostName, Address: name},
			},
			NodeInfo: corev1.NodeSystemInfo{
				Architecture:            nodeArchitecture,
				OperatingSystem:         nodeSystem,
				KubeletVersion:          version,
				ContainerRuntimeVersion: Kwok,
			},
		},
	}
}

// createNodes creates the nodes. It skips nodes that exist already.
func (p *Playground) createNodes(ctx context.Context, nodes []*corev1.Node) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(nodeCreators)
	for _, node := range nodes {
		group.Go(func() error {
			_, err := p.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
			if err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("create node %s: %w", node.Name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// waitNodesReady waits until all nodes are ready and lack the taints for nodes that are not ready
// or not reachable.
func (p *Playground) waitNodesReady(ctx context.Context, nodes []*corev1.Node) error {
	if len(nodes) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	var missing string
	interval := pollInterval * time.Duration(1+len(nodes)/nodesPerPoll)
	err := wait.PollUntilContextCancel(ctx, interval, true, func(ctx context.Context) (bool, error) {
		list, err := p.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return false, err
		}
		ready := map[string]bool{}
		for i := range list.Items {
			ready[list.Items[i].Name] = isReady(&list.Items[i])
		}
		missing = ""
		for _, node := range nodes {
			if !ready[node.Name] {
				missing = node.Name
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil && missing != "" {
		return fmt.Errorf("node %s is not ready: %w", missing, err)
	}
	return err
}

func isReady(node *corev1.Node) bool {
	for _, taint := range node.Spec.Taints {
		if taint.Key == corev1.TaintNodeNotReady || taint.Key == corev1.TaintNodeUnreachable {
			return false
		}
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
