package playground

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"path/filepath"
)

// etcdSpec is a single-member etcd. Only clients with a certificate from the etcd authority can
// connect. Two playgrounds may race for a port, and the certificates keep each from using the
// other's etcd.
func (p *Playground) etcdSpec(port int) componentSpec {
	url := fmt.Sprintf("https://%s:%d", loopback, port)
	args := []string{
		"--name=playground",
		"--data-dir=" + filepath.Join(p.dir.path, "etcd"),
		"--listen-client-urls=" + url,
		"--advertise-client-urls=" + url,
		// No peer ever connects, so any port is fine.
		"--listen-peer-urls=http://" + loopback + ":0",
		"--initial-advertise-peer-urls=http://" + loopback + ":0",
		"--initial-cluster=playground=http://" + loopback + ":0",
		"--cert-file=" + p.certs.etcd.certFile,
		"--key-file=" + p.certs.etcd.keyFile,
		"--client-cert-auth",
		"--trusted-ca-file=" + p.certs.etcdAuthority.certFile(),
		"--log-level=warn",
	}
	if p.dir.temporary {
		// After a crash of the machine, the data is not needed.
		args = append(args, "--unsafe-no-fsync")
	}
	return componentSpec{
		name: Etcd,
		path: p.paths[Etcd],
		args: args,
		port: port,
		ready: func(ctx context.Context) error {
			return probe(ctx, p.certs.etcdClient(), url+"/health")
		},
	}
}

// EtcdTLS returns the TLS configuration of a client of etcd. etcd serves at the URL of the
// component [Etcd]. Each call returns a new configuration.
func (p *Playground) EtcdTLS() *tls.Config { return p.certs.etcdClient().TLSClientConfig }

// probe returns nil if a GET of url returns status 200. It keeps no connections.
func probe(ctx context.Context, transport *http.Transport, url string) (err error) {
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return err
	}
	if err := response.Body.Close(); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, response.Status)
	}
	return nil
}
