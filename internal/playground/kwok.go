package playground

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// podRange is the range of the pods' addresses.
const podRange = "10.128.0.0/9"

// nodeLeaseSeconds is the kubelet's own lease duration.
const nodeLeaseSeconds = 40

// kwokConfig configures the behavior of nodes and pods in kwok.
//
//go:embed kwok.yaml
var kwokConfig []byte

func (p *Playground) kwokSpec() componentSpec {
	configPath := filepath.Join(p.dir.path, "kwok.yaml")
	return componentSpec{
		name: Kwok,
		path: p.paths[Kwok],
		args: []string{
			"--kubeconfig=" + p.adminKubeconfig(),
			"--config=" + configPath,
			"--manage-all-nodes",
			"--cidr=" + podRange,
			fmt.Sprintf("--node-lease-duration-seconds=%d", nodeLeaseSeconds),
		},
		prepare: func(ctx context.Context) error {
			if err := os.WriteFile(configPath, kwokConfig, 0o600); err != nil {
				return err
			}
			return p.dropNodeLeases(ctx)
		},
		ready: p.nodesAreManaged,
	}
}

// dropNodeLeases removes the leases of an earlier kwok. A new kwok has another identity, and would
// wait for the leases to expire before it takes over their nodes.
func (p *Playground) dropNodeLeases(ctx context.Context) error {
	leases := p.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	if err := leases.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return fmt.Errorf("remove old node leases: %w", err)
	}
	return nil
}

// nodesAreManaged returns nil once kwok holds as many leases as there are nodes. Other leases do
// not exist, because they are dropped before kwok starts.
func (p *Playground) nodesAreManaged(ctx context.Context) error {
	// A page with one item has the number of the remaining items, and nothing else is needed.
	one := metav1.ListOptions{Limit: 1}
	nodes, err := p.client.CoreV1().Nodes().List(ctx, one)
	if err != nil {
		return fmt.Errorf("count the nodes: %w", err)
	}
	leases, err := p.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(ctx, one)
	if err != nil {
		return fmt.Errorf("count the node leases: %w", err)
	}
	want, got := total(len(nodes.Items), nodes.RemainingItemCount), total(len(leases.Items), leases.RemainingItemCount)
	if got < want {
		return fmt.Errorf("kwok holds the leases of %d of %d nodes", got, want)
	}
	return nil
}

func total(listed int, remaining *int64) int64 {
	if remaining == nil {
		return int64(listed)
	}
	return int64(listed) + *remaining
}
