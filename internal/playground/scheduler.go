package playground

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// schedulerConfigKind is the kind of object in the file for kube-scheduler's --config.
const schedulerConfigKind = "KubeSchedulerConfiguration"

// schedulerConfig has the fields of a scheduler configuration that the playground reads.
type schedulerConfig struct {
	Kind             string `json:"kind"`
	ClientConnection struct {
		Kubeconfig string `json:"kubeconfig"`
	} `json:"clientConnection"`
	LeaderElection struct {
		LeaderElect       *bool  `json:"leaderElect"`
		ResourceName      string `json:"resourceName"`
		ResourceNamespace string `json:"resourceNamespace"`
	} `json:"leaderElection"`
}

// readSchedulerConfig returns the content of the file, and the decoded fields.
func readSchedulerConfig(path string) ([]byte, *schedulerConfig, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, fmt.Errorf("scheduler configuration: %w", err)
	}
	var config schedulerConfig
	if err := yaml.Unmarshal(raw, &config); err != nil {
		return nil, nil, fmt.Errorf("scheduler configuration %s: %w", path, err)
	}
	if config.Kind != schedulerConfigKind {
		return nil, nil, fmt.Errorf("scheduler configuration %s: its kind is %q, not %s", path, config.Kind, schedulerConfigKind)
	}
	return raw, &config, nil
}

// withKubeconfig returns a scheduler configuration whose clientConnection.kubeconfig is set. All
// other fields stay the same.
func withKubeconfig(raw []byte, kubeconfig string) ([]byte, error) {
	var document map[string]any
	if err := yaml.Unmarshal(raw, &document); err != nil {
		return nil, err
	}
	connection, ok := document["clientConnection"].(map[string]any)
	if !ok {
		connection = map[string]any{}
	}
	connection["kubeconfig"] = kubeconfig
	document["clientConnection"] = connection
	return yaml.Marshal(document)
}

// schedulerArgs returns the arguments of a scheduler. It also returns the name of the Lease that
// the scheduler must hold before it works, or nil if there is none.
func (p *Playground) schedulerArgs(name string, options SchedulerOptions, port int) ([]string, *metav1.ObjectMeta, error) {
	kubeconfig := options.Kubeconfig
	if kubeconfig == "" {
		kubeconfig = p.schedulerKubeconfig()
	}
	args := []string{
		"--bind-address=" + loopback,
		fmt.Sprintf("--secure-port=%d", port),
		"--tls-cert-file=" + p.certs.serving.certFile,
		"--tls-private-key-file=" + p.certs.serving.keyFile,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
	}
	if options.Config == "" {
		args = append(args, "--kubeconfig="+kubeconfig, "--leader-elect=false")
		return append(args, options.Args...), nil, nil
	}
	raw, config, err := readSchedulerConfig(options.Config)
	if err != nil {
		return nil, nil, err
	}
	path, err := filepath.Abs(options.Config)
	if err != nil {
		return nil, nil, err
	}
	if config.ClientConnection.Kubeconfig == "" {
		path = p.configCopy(name)
		if raw, err = withKubeconfig(raw, kubeconfig); err != nil {
			return nil, nil, err
		}
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			return nil, nil, err
		}
	}
	args = append(args, "--config="+path)
	return append(args, options.Args...), config.lease(), nil
}

// configCopy returns the path of the copy of a scheduler's configuration file.
func (p *Playground) configCopy(name string) string {
	return filepath.Join(p.dir.path, name+"-config.yaml")
}

// lease returns the name of the Lease that a scheduler with this configuration acquires, with
// kube-scheduler's defaults. It returns nil if leader election is disabled.
func (c *schedulerConfig) lease() *metav1.ObjectMeta {
	election := c.LeaderElection
	if election.LeaderElect != nil && !*election.LeaderElect {
		return nil
	}
	lease := &metav1.ObjectMeta{Name: election.ResourceName, Namespace: election.ResourceNamespace}
	if lease.Name == "" {
		lease.Name = "kube-scheduler"
	}
	if lease.Namespace == "" {
		lease.Namespace = metav1.NamespaceSystem
	}
	return lease
}

func (p *Playground) schedulerSpec(name, path string, options SchedulerOptions, port int) (componentSpec, error) {
	args, lease, err := p.schedulerArgs(name, options, port)
	if err != nil {
		return componentSpec{}, err
	}
	url := fmt.Sprintf("https://%s:%d", loopback, port)
	var started time.Time
	return componentSpec{
		name:  name,
		path:  path,
		args:  args,
		port:  port,
		ended: options.Ended,
		// Messages name the user's file instead of the copy, which is removed with the data
		// directory.
		files: strings.NewReplacer(p.configCopy(name), options.Config),
		prepare: func(context.Context) error {
			started = p.now()
			return nil
		},
		ready: func(ctx context.Context) error {
			if err := probe(ctx, p.certs.adminClient(), url+"/readyz"); err != nil || lease == nil {
				return err
			}
			return p.leaseIsHeld(ctx, lease, started)
		},
	}, nil
}

// leaseIsHeld returns nil if the lease has a holder that has renewed it after the given time.
func (p *Playground) leaseIsHeld(ctx context.Context, lease *metav1.ObjectMeta, after time.Time) error {
	held, err := p.client.CoordinationV1().Leases(lease.Namespace).Get(ctx, lease.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("leader lease: %w", err)
	}
	holder, renewed := held.Spec.HolderIdentity, held.Spec.RenewTime
	if holder == nil || *holder == "" || renewed == nil || renewed.Time.Before(after) {
		return errors.New("the leader lease is not held yet")
	}
	return nil
}
