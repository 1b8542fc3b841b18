package playground

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

func (p *Playground) apiserverSpec(port int) componentSpec {
	url := fmt.Sprintf("https://%s:%d", loopback, port)
	return componentSpec{
		name: APIServer,
		path: p.paths[APIServer],
		port: port,
		// After the first signal, the API server waits for its watches to end. The second signal
		// ends the wait, because some watchers do not notice the shutdown.
		stopAgain: stopAgain,
		args: slices.Concat([]string{
			"--etcd-servers=" + p.Component(Etcd).URL(),
			"--etcd-cafile=" + p.certs.etcdAuthority.certFile(),
			"--etcd-certfile=" + p.certs.etcd.certFile,
			"--etcd-keyfile=" + p.certs.etcd.keyFile,
			"--bind-address=" + loopback,
			fmt.Sprintf("--secure-port=%d", port),
			// Without this argument, the API server looks for a network address of the machine, and
			// there may be none.
			"--advertise-address=" + loopback,
			// Do not create endpoints for the Service of the API server, because endpoints must not
			// have a loopback address.
			"--endpoint-reconciler-type=none",
			"--service-cluster-ip-range=" + serviceRange,
			"--tls-cert-file=" + p.certs.serving.certFile,
			"--tls-private-key-file=" + p.certs.serving.keyFile,
			"--client-ca-file=" + p.certs.authority.certFile(),
			// No proxy is in front of the API server, but servers that delegate authentication to
			// it need this argument.
			"--requestheader-client-ca-file=" + p.certs.frontProxyAuthority.certFile(),
			"--requestheader-allowed-names=front-proxy-client",
			"--requestheader-username-headers=X-Remote-User",
			"--requestheader-group-headers=X-Remote-Group",
			"--requestheader-extra-headers-prefix=X-Remote-Extra-",
			"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
			"--service-account-key-file=" + p.certs.serviceAccountKey,
			"--service-account-signing-key-file=" + p.certs.serviceAccountKey,
			"--authorization-mode=Node,RBAC",
			"--allow-privileged=true",
			"--profiling=false",
			"--max-requests-inflight=2000",
			"--max-mutating-requests-inflight=1000",
		}, p.nativeAPIServerArgs(), p.auditArgs()),
		prepare: p.writeAuditPolicy,
		ready: func(ctx context.Context) error {
			return probe(ctx, p.certs.adminClient(), url+"/readyz")
		},
	}
}

// nativeAPIServerArgs returns the arguments that enable the Workload API of scheduling.k8s.io. From
// Kubernetes 1.36, the API includes PodGroups with priority and disruptionMode, and
// spec.schedulingGroup of pods. In 1.35, it includes spec.workloadRef of pods.
func (p *Playground) nativeAPIServerArgs() []string {
	if !p.options.NativeWorkloadAPI {
		return nil
	}
	return []string{
		"--runtime-config=scheduling.k8s.io/" + p.release.WorkloadAPI + "=true",
		"--feature-gates=" + p.release.gates,
	}
}

// nativeControllerArgs returns the arguments that enable the controller for PodGroups of
// scheduling.k8s.io. The controller removes the finalizers of deleted PodGroups.
func (p *Playground) nativeControllerArgs() []string {
	if !p.options.NativeWorkloadAPI {
		return nil
	}
	return []string{"--feature-gates=" + p.release.gates}
}

// AuditLog returns the path of the file with the requests that Options.AuditPolicy selects. Each
// line is one audit event as JSON.
func (p *Playground) AuditLog() string { return p.dir.logPath("audit") }

func (p *Playground) auditPolicy() string { return filepath.Join(p.dir.path, "audit-policy.yaml") }

func (p *Playground) auditArgs() []string {
	if p.options.AuditPolicy == "" {
		return nil
	}
	return []string{"--audit-policy-file=" + p.auditPolicy(), "--audit-log-path=" + p.AuditLog()}
}

func (p *Playground) writeAuditPolicy(context.Context) error {
	if p.options.AuditPolicy == "" {
		return nil
	}
	if err := os.WriteFile(p.auditPolicy(), []byte(p.options.AuditPolicy), 0o600); err != nil {
		return fmt.Errorf("audit policy: %w", err)
	}
	return nil
}
