package playground

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func parseLeaf(t *testing.T, l *leaf) *x509.Certificate {
	t.Helper()
	if _, err := tls.X509KeyPair(l.certPEM, l.keyPEM); err != nil {
		t.Fatalf("certificate and key do not match: %v", err)
	}
	block, _ := pem.Decode(l.certPEM)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func verify(cert *x509.Certificate, by *authority, at time.Time, use x509.ExtKeyUsage) error {
	roots := x509.NewCertPool()
	roots.AddCert(by.cert)
	_, err := cert.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{use}})
	return err
}

func TestCertificates(t *testing.T) {
	now := time.Now()
	dir := filepath.Join(t.TempDir(), "pki")
	certs, err := newCertificates(dir, now)
	if err != nil {
		t.Fatal(err)
	}
	admin, serving, etcd := parseLeaf(t, certs.admin), parseLeaf(t, certs.serving), parseLeaf(t, certs.etcd)
	for name, err := range map[string]error{
		"admin as a client":   verify(admin, certs.authority, now, x509.ExtKeyUsageClientAuth),
		"serving as a server": verify(serving, certs.authority, now, x509.ExtKeyUsageServerAuth),
		"etcd as a server":    verify(etcd, certs.etcdAuthority, now, x509.ExtKeyUsageServerAuth),
		"etcd as a client":    verify(etcd, certs.etcdAuthority, now, x509.ExtKeyUsageClientAuth),
		"loopback":            serving.VerifyHostname(loopback),
		"the service":         serving.VerifyHostname("kubernetes.default.svc"),
		"the service's IP":    serving.VerifyHostname(net.ParseIP(serviceIP).String()),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, err := range map[string]error{
		"admin as a server":        verify(admin, certs.authority, now, x509.ExtKeyUsageServerAuth),
		"admin at etcd":            verify(admin, certs.etcdAuthority, now, x509.ExtKeyUsageClientAuth),
		"serving after a long day": verify(serving, certs.authority, now.Add(leafLifetime+time.Hour), x509.ExtKeyUsageServerAuth),
	} {
		if err == nil {
			t.Errorf("%s is valid", name)
		}
	}
	if groups := admin.Subject.Organization; len(groups) != 1 || groups[0] != mastersGroup {
		t.Errorf("admin is in groups %v", groups)
	}
	requirePrivate(t, dir)
}

// requirePrivate fails the test if users other than the owner can access any file in dir.
func requirePrivate(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %s", entry.Name(), info.Mode())
		}
	}
}

func TestCertificatesAreKept(t *testing.T) {
	dir := t.TempDir()
	first, err := newCertificates(dir, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(first.serviceAccountKey)
	if err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(2 * leafLifetime)
	second, err := newCertificates(dir, later)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.authority.pem, second.authority.pem) {
		t.Error("the authority has changed")
	}
	sameKey, err := os.ReadFile(second.serviceAccountKey)
	if err != nil || !bytes.Equal(key, sameKey) {
		t.Errorf("the service account key has changed: %v", err)
	}
	// Leaf certificates are issued again at each start, so an old directory still works.
	if err := verify(parseLeaf(t, second.admin), first.authority, later, x509.ExtKeyUsageClientAuth); err != nil {
		t.Error(err)
	}
}

func TestDamagedAuthority(t *testing.T) {
	dir := t.TempDir()
	if _, err := loadOrCreateAuthority(dir, "ca", time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "ca.crt"), []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := loadOrCreateAuthority(dir, "ca", time.Now()); err == nil {
		t.Error("a damaged certificate is taken")
	}
}
