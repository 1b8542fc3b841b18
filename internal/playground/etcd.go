package playground

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"path/filepath"
)

// etcdSpec is a single-member etcd that only holders of a certificate from the etcd authority can talk to. The
// certificates are also what keeps two playgrounds that race for a port from taking each other's etcd for their own.
func (p *Playground) etcdSpec(port int) componentSpec {
	url := fmt.Sprintf("https://%s:%d", loopback, port)
	args := []string{
		"--name=playground",
		"--data-dir=" + filepath.Join(p.dir.path, "etcd"),
		"--listen-client-urls=" + url,
		"--advertise-client-urls=" + url,
		// No peer ever comes, so any port will do.
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
		// Nobody reads this data after a crash of the machine.
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

// EtcdTLS is what a client of etcd itself needs, which answers at the URL of the component [Etcd]. Each call returns a new one.
func (p *Playground) EtcdTLS() *tls.Config { return p.certs.etcdClient().TLSClientConfig }

// probe is nil when a GET of url answers 200. Connections are not kept.
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
