// Package endpoint parses the URLs of brokers, and detects connections without TLS and requests from this
// machine.
//
// A URL is scheme://host:port[,host:port][/path][?option=value&…]. Each driver defines the path and its own
// options. If a Kind has Ports, user:password@ may precede the host. Otherwise passwords are in files or in
// the environment. Errors never contain a password. All drivers have these options:
//
//	tls=on|off             use TLS. Default: on if ca or cert is given
//	ca=FILE                PEM file of the authorities of the servers. Default: the system's
//	cert=FILE, key=FILE    PEM files of the client's certificate; read again for each connection
//	user=NAME              default: the variable …_USER
//	password_file=FILE     one line; read again for each connection. Default: the variable …_PASSWORD
package endpoint
