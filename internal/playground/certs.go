package playground

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

const (
	// serviceRange is the range of Service addresses. serviceIP is the address of the Service for
	// the API server.
	serviceRange = "10.96.0.0/16"
	serviceIP    = "10.96.0.1"
	// mastersGroup is the group whose members have all rights.
	mastersGroup = "system:masters"
	// schedulerUser is the user name of the scheduler that deploy/ installs. The admission policies
	// of deploy/ permit only this user to write the fields that the scheduler fills in.
	schedulerUser = "system:serviceaccount:reprieve-system:reprieve-scheduler"
)

// certificates are the credentials of all components. The authorities and the service account key
// are kept in the data directory across starts. All other certificates are issued at each start.
type certificates struct {
	authority           *authority
	etcdAuthority       *authority
	frontProxyAuthority *authority
	serving             *leaf
	admin               *leaf
	scheduler           *leaf
	etcd                *leaf
	serviceAccountKey   string
}

func newCertificates(dir string, now time.Time) (*certificates, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	c := &certificates{serviceAccountKey: filepath.Join(dir, "service-account.key")}
	if err := loadOrCreateKey(c.serviceAccountKey); err != nil {
		return nil, err
	}
	var err error
	if c.authority, err = loadOrCreateAuthority(dir, "ca", now); err != nil {
		return nil, err
	}
	if c.etcdAuthority, err = loadOrCreateAuthority(dir, "etcd-ca", now); err != nil {
		return nil, err
	}
	if c.frontProxyAuthority, err = loadOrCreateAuthority(dir, "front-proxy-ca", now); err != nil {
		return nil, err
	}
	names := []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}
	if c.serving, err = c.authority.serving("serving", names, net.ParseIP(serviceIP)); err != nil {
		return nil, err
	}
	if c.admin, err = c.authority.client("playground-admin", "playground-admin", mastersGroup); err != nil {
		return nil, err
	}
	if c.scheduler, err = c.authority.client("scheduler", schedulerUser, mastersGroup); err != nil {
		return nil, err
	}
	if c.etcd, err = c.etcdAuthority.serving("etcd", nil); err != nil {
		return nil, err
	}
	return c, nil
}

// These functions return transports that trust only the servers of this playground.
func (c *certificates) etcdClient() *http.Transport  { return newTransport(c.etcdAuthority, c.etcd) }
func (c *certificates) adminClient() *http.Transport { return newTransport(c.authority, c.admin) }

func newTransport(trusted *authority, own *leaf) *http.Transport {
	roots := x509.NewCertPool()
	roots.AddCert(trusted.cert)
	return &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{
			MinVersion: tls.VersionTLS12,
			RootCAs:    roots,
			// Parse the pair in each handshake, so that newTransport needs no error result. Parsing
			// cannot fail, because this program created the pair.
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				pair, err := tls.X509KeyPair(own.certPEM, own.keyPEM)
				return &pair, err
			},
		},
	}
}
