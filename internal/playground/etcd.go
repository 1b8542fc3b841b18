package playground

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"path/filepath"
)

// etcdSpec returns the settings of an etcd with a single member. Only clients with a certificate of
// this playground's etcd authority can connect. So a playground cannot use another playground's
// etcd by mistake if both try to use one port.
func (p *Playground) etcdSpec(port int) componentSpec {
	url := fmt.Sprintf("https://%s:%d", loopback, port)
	args := []string{
		"--name=playground",
		"--data-dir=" + filepath.Join(p.dir.path, "etcd"),
		"--listen-client-urls=" + url,
		"--advertise-client-urls=" + url,
		// No peer connects, so any port works.
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
		// Do not wait for writes to the disk: data that is lost in a crash of the machine is not
		// needed.
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

// EtcdTLS returns a new TLS configuration for clients of etcd. The URL of etcd is the URL of the
// component [Etcd].
func (p *Playground) EtcdTLS() *tls.Config { return p.certs.etcdClient().TLSClientConfig }

// probe returns nil if a GET request for url returns status 200. It closes its connections.
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
