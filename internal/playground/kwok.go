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

// podRange is the range of pod addresses.
const podRange = "10.128.0.0/9"

// nodeLeaseSeconds is the duration of a node's lease. It equals the default of the kubelet.
const nodeLeaseSeconds = 40

// kwokConfig is the configuration of kwok. It defines the behavior of nodes and pods.
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

// dropNodeLeases deletes the node leases of an earlier kwok process. The new kwok has another
// identity and would wait until those leases expire.
func (p *Playground) dropNodeLeases(ctx context.Context) error {
	leases := p.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	if err := leases.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return fmt.Errorf("remove old node leases: %w", err)
	}
	return nil
}

// nodesAreManaged returns nil when kwok holds a lease for every node. It compares the number of
// leases with the number of nodes. That is enough, because dropNodeLeases has removed all older
// leases.
func (p *Playground) nodesAreManaged(ctx context.Context) error {
	// A page with one item is enough, because it also has the number of remaining items.
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
