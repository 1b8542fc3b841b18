package playground

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

const (
	authorityLifetime = 10 * 365 * 24 * time.Hour
	leafLifetime      = 365 * 24 * time.Hour
	// clockSlack is the time between the start of a certificate's validity and its creation.
	clockSlack = 5 * time.Minute
)

// authority is a certificate authority. Its files are NAME.crt and NAME.key in dir.
type authority struct {
	dir  string
	name string
	cert *x509.Certificate
	pem  []byte
	key  crypto.Signer
	now  time.Time
}

// leaf is a certificate with its key.
type leaf struct {
	certPEM, keyPEM   []byte
	certFile, keyFile string
}

// loadOrCreateAuthority reads the authority with the given name from dir, or creates it there.
func loadOrCreateAuthority(dir, name string, now time.Time) (*authority, error) {
	a := &authority{dir: dir, name: name, now: now}
	certPEM, err := os.ReadFile(a.certFile())
	if errors.Is(err, fs.ErrNotExist) {
		if err := a.create(); err != nil {
			return nil, fmt.Errorf("create certificate authority %s: %w", name, err)
		}
		return a, nil
	}
	if err != nil {
		return nil, err
	}
	keyPEM, err := os.ReadFile(filepath.Join(dir, name+".key"))
	if err != nil {
		return nil, err
	}
	certBlock, _ := pem.Decode(certPEM)
	keyBlock, _ := pem.Decode(keyPEM)
	if certBlock == nil || keyBlock == nil {
		return nil, fmt.Errorf("certificate authority %s in %s: not PEM", name, dir)
	}
	if a.cert, err = x509.ParseCertificate(certBlock.Bytes); err != nil {
		return nil, fmt.Errorf("certificate authority %s in %s: %w", name, dir, err)
	}
	if a.key, err = x509.ParseECPrivateKey(keyBlock.Bytes); err != nil {
		return nil, fmt.Errorf("key of certificate authority %s in %s: %w", name, dir, err)
	}
	a.pem = certPEM
	return a, nil
}

func (a *authority) certFile() string { return filepath.Join(a.dir, a.name+".crt") }

func (a *authority) create() error {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "playground-" + a.name},
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
		NotBefore:             a.now.Add(-clockSlack),
		NotAfter:              a.now.Add(authorityLifetime),
	}
	key, err := newKey()
	if err != nil {
		return err
	}
	a.key = key
	issued, err := writeCertificate(a.dir, a.name, template, template, key, key)
	if err != nil {
		return err
	}
	a.pem = issued.certPEM
	block, _ := pem.Decode(issued.certPEM)
	a.cert, err = x509.ParseCertificate(block.Bytes)
	return err
}

// serving issues a certificate for servers on the loopback address, with additional DNS names and
// addresses. It is also valid for clients, because etcd requires that.
func (a *authority) serving(name string, dnsNames []string, ips ...net.IP) (*leaf, error) {
	return a.issue(name, &x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		DNSNames:    append([]string{"localhost"}, dnsNames...),
		IPAddresses: append([]net.IP{net.ParseIP(loopback)}, ips...),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
}

// client issues a client certificate for a user in the given groups. name is the base name of its
// files.
func (a *authority) client(name, user string, groups ...string) (*leaf, error) {
	return a.issue(name, &x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

func (a *authority) issue(name string, template *x509.Certificate) (*leaf, error) {
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.NotBefore = a.now.Add(-clockSlack)
	template.NotAfter = a.now.Add(leafLifetime)
	if template.NotAfter.After(a.cert.NotAfter) {
		template.NotAfter = a.cert.NotAfter
	}
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	issued, err := writeCertificate(a.dir, name, template, a.cert, key, a.key)
	if err != nil {
		return nil, fmt.Errorf("issue certificate %s: %w", name, err)
	}
	return issued, nil
}

// writeCertificate signs template and writes the certificate and its key to dir.
func writeCertificate(dir, name string, template, parent *x509.Certificate, key *ecdsa.PrivateKey, signer crypto.Signer) (*leaf, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return nil, err
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return nil, err
	}
	l := &leaf{
		certPEM:  pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		keyPEM:   keyPEM,
		certFile: filepath.Join(dir, name+".crt"),
		keyFile:  filepath.Join(dir, name+".key"),
	}
	// Write the key first, so that an existing certificate always has its key.
	if err := os.WriteFile(l.keyFile, l.keyPEM, 0o600); err != nil {
		return nil, err
	}
	return l, os.WriteFile(l.certFile, l.certPEM, 0o600)
}

// loadOrCreateKey creates a key for signing service account tokens if the file does not exist. The
// key is kept, so that tokens stay valid across restarts.
func loadOrCreateKey(file string) error {
	if _, err := os.Stat(file); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	key, err := newKey()
	if err != nil {
		return err
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return err
	}
	return os.WriteFile(file, keyPEM, 0o600)
}

func newKey() (*ecdsa.PrivateKey, error) {
	return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}
