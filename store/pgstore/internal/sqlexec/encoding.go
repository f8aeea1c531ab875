package sqlexec

import "github.com/skald-go/skald/store"

// everyText is the encoding that can represent every text.
const everyText = "UTF8"

// CheckEncoding returns an error unless server and client both use UTF-8. A client with another encoding
// would store wrong letters without an error.
func CheckEncoding(server, client, database string) error {
	if server != everyText {
		return &store.EncodingError{Where: "the database " + database, Encoding: server,
			Remedy: "create another database: CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0"}
	}
	return CheckClient(client)
}

// CheckClient checks the encoding of a connection.
func CheckClient(encoding string) error {
	if encoding == everyText {
		return nil
	}
	return &store.EncodingError{Where: "the connection", Encoding: encoding,
		Remedy: "add client_encoding=UTF8 to the URL, or ALTER ROLE … RESET client_encoding"}
}
