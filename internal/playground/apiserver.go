package playground

import (
	"context"
	"fmt"
)

func (p *Playground) apiserverSpec(port int) componentSpec {
	url := fmt.Sprintf("https://%s:%d", loopback, port)
	return componentSpec{
		name: APIServer,
		path: p.paths[APIServer],
		port: port,
		args: []string{
			"--etcd-servers=" + p.Component(Etcd).URL(),
			"--etcd-cafile=" + p.certs.etcdAuthority.certFile(),
			"--etcd-certfile=" + p.certs.etcd.certFile,
			"--etcd-keyfile=" + p.certs.etcd.keyFile,
			"--bind-address=" + loopback,
			fmt.Sprintf("--secure-port=%d", port),
			// Otherwise the API server looks for an address on a network, which there may not be.
			"--advertise-address=" + loopback,
			// A Service may not have a loopback address among its endpoints.
			"--endpoint-reconciler-type=none",
			"--service-cluster-ip-range=" + serviceRange,
			"--tls-cert-file=" + p.certs.serving.certFile,
			"--tls-private-key-file=" + p.certs.serving.keyFile,
			"--client-ca-file=" + p.certs.authority.certFile(),
			// Nothing sits in front of the API server, but whoever delegates authentication to it asks for this.
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
		},
		ready: func(ctx context.Context) error {
			return probe(ctx, p.certs.adminClient(), url+"/readyz")
		},
	}
}
